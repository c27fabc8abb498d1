"""How a message about an incident leaves: a POST with JSON, or an e-mail. Standard library only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import smtplib
import socket
import ssl
import time
import urllib.error
import urllib.request
from email.message import EmailMessage
from email.utils import formatdate
from urllib.parse import SplitResult, unquote, urlsplit

from retoma.model.alert import Delivery, advice, sentence, word
from retoma.system.settings import Settings

_TIMEOUT = 15.0
_GOOD = range(200, 300)


class Unsent(Exception):
    """A message could not be sent; it is tried again. The reason contains no address and no secret."""


def text_of(message: Delivery, language: str) -> str:
    """The message for people."""
    since = f"{message.opened_at:%Y-%m-%d %H:%M:%S %Z}"
    lines = [sentence(message.rule, message.facts, language)]
    if message.what == "resolved":
        return "\n".join([*lines, word("over", language).format(since=since)])
    return "\n".join(
        [
            *lines,
            word("next", language).format(next=advice(message.rule, message.facts, language)),
            word("since", language).format(at=since),
            word("acknowledge", language).format(id=message.alert_id),
        ]
    )


def title_of(message: Delivery, language: str) -> str:
    """One line for a subject."""
    head = word("resolved", language) if message.what == "resolved" else word(message.severity, language)
    return f"Retoma, {head}: {sentence(message.rule, message.facts, language)}"


def body_of(message: Delivery, language: str) -> bytes:
    """The message for programs. *text* is what chat services show."""
    body = {
        "id": message.id,
        "what": message.what,
        "alert": message.alert_id,
        "rule": message.rule,
        "subject": message.subject,
        "severity": message.severity,
        "facts": message.facts,
        "opened_at": message.opened_at.isoformat(),
        "resolved_at": message.resolved_at.isoformat() if message.resolved_at else None,
        "text": f"{title_of(message, language)}\n{text_of(message, language)}",
    }
    return json.dumps(body, ensure_ascii=False).encode()


def send_webhook(message: Delivery, settings: Settings) -> None:
    """POST it. With a secret it is signed as Standard Webhooks describe; the id is the same for each try."""
    assert settings.alert_webhook is not None
    body = body_of(message, settings.alert_language)
    headers = {"Content-Type": "application/json", "User-Agent": "retoma", "webhook-id": message.id}
    if settings.alert_webhook_secret is not None:
        moment = str(int(time.time()))
        key = settings.alert_webhook_secret.get_secret_value().encode()
        signed = hmac.new(key, f"{message.id}.{moment}.".encode() + body, hashlib.sha256).digest()
        headers |= {"webhook-timestamp": moment, "webhook-signature": f"v1,{base64.b64encode(signed).decode()}"}
    request = urllib.request.Request(  # noqa: S310 - the setting allows http and https only
        settings.alert_webhook.get_secret_value(), data=body, headers=headers, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
        error.close()
    except (OSError, ValueError) as error:
        raise Unsent(_plain(error)) from None
    if status not in _GOOD:
        raise Unsent(f"HTTP {status}")


def send_mail(message: Delivery, settings: Settings) -> None:
    """Send it as one e-mail to all who are named. TLS is used where the server offers it, and always with smtps."""
    assert settings.alert_smtp is not None
    place = urlsplit(settings.alert_smtp.get_secret_value())
    mail = EmailMessage()
    mail["Subject"] = title_of(message, settings.alert_language)
    mail["From"] = settings.alert_email_from or f"retoma@{socket.getfqdn()}"
    mail["To"] = ", ".join(settings.alert_email_to)
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{message.id}@retoma>"
    mail.set_content(text_of(message, settings.alert_language))
    try:
        with _connected(place) as server:
            server.send_message(mail)
    except (OSError, smtplib.SMTPException) as error:
        raise Unsent(_plain(error)) from None


def _connected(place: SplitResult) -> smtplib.SMTP:
    host = place.hostname or "localhost"
    context = ssl.create_default_context()
    if place.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, place.port or 465, timeout=_TIMEOUT, context=context)
    else:
        server = smtplib.SMTP(host, place.port or 25, timeout=_TIMEOUT)
        server.ehlo_or_helo_if_needed()
        if server.has_extn("starttls"):
            server.starttls(context=context)
            server.ehlo()
    if place.username:
        server.login(unquote(place.username), unquote(place.password or ""))
    return server


def _plain(error: Exception) -> str:
    """What happened, in a word of either language, without what was sent or to whom."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"SMTP {error.smtp_code}"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        return type(error.reason).__name__
    return type(error).__name__
