-- Alerts without Prometheus.
--
-- alerts            an incident each: opened when a rule finds it, resolved when no round has found it for a while
-- alert_deliveries  what was sent about it, by channel; a row is acquired before it is sent, so no two senders have it
-- duties            two more: one process judges, and one that has a channel sends

create table retoma.alerts (
    id               bigint generated always as identity primary key,
    rule             text not null,
    subject          text not null,
    severity         text not null,
    facts            jsonb not null default '{}',
    opened_at        timestamptz not null default now(),
    seen_at          timestamptz not null default now(),
    acknowledged_at  timestamptz,
    acknowledged_by  text,
    note             text,
    resolved_at      timestamptz,
    constraint a_severity_is_known check (severity in ('info', 'warning', 'critical')),
    constraint who_acknowledged_is_known check ((acknowledged_at is null) = (acknowledged_by is null))
);

create unique index alerts_open on retoma.alerts (rule, subject) where resolved_at is null;
create index alerts_resolved on retoma.alerts (resolved_at) where resolved_at is not null;

create table retoma.alert_deliveries (
    alert_id         bigint not null references retoma.alerts (id) on delete cascade,
    channel          text not null,
    what             text not null,
    tries            integer not null default 0,
    due_at           timestamptz not null default now(),
    sent_at          timestamptz,
    error            text,
    primary key (alert_id, channel, what),
    constraint a_channel_is_known check (channel in ('webhook', 'email')),
    constraint what_is_told_is_known check (what in ('opened', 'resolved'))
);

create index alert_deliveries_due on retoma.alert_deliveries (due_at) where sent_at is null;

insert into retoma.duties (name) values ('judge_alerts'), ('send_alerts') on conflict do nothing;
