"""What the program can do, over HTTP."""

from .conftest import House


def test_the_pipelines_of_the_program_are_told_with_the_schema_of_their_input(house: House) -> None:
    found = {each["name"]: each for each in house.get("/pipelines").json()["pipelines"]}

    assert sorted(found) == ["anything", "double", "stumble", "wait"]
    assert found["double"]["input_schema"] == {"type": "integer"}
    assert found["anything"]["input_schema"] == {}
    assert (found["double"]["queue"], found["double"]["asks_model"]) == ("double", False)
    assert (found["double"]["internal"], found["double"]["page"]) == (False, None)


def test_a_key_for_some_pipelines_is_told_of_these_alone(house: House) -> None:
    limited = house.key("read", pipelines=("wait",))

    found = house.get("/pipelines", headers=limited).json()["pipelines"]

    assert [each["name"] for each in found] == ["wait"]
