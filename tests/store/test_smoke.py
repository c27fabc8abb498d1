def test_x(db):
    w = db.hello()
    ids = db.enqueue(3)
    c = db.claim(w)
    assert [x.id for x in c] == ids
def test_y(db):
    w = db.hello()
    ids = db.enqueue(3)
    db.claim(w)
    db.silence(w)
    print(db.recover())
