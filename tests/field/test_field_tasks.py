"""Versions from git: what is published, that it never changes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from field_tasks import FILES, Group

from tapml.errors import InputError
from tapml.field import signing
from tapml.field.signing import new_key
from tapml.field.tasks import publish as publishing
from tapml.field.tasks.publish import publish, published_path
from tapml.field.tasks.published import Published
from tapml.field.tasks.repository import Repository
from tapml.files import sha256


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_a_version_is_its_files_by_digest_and_signed(group: Group) -> None:
    group.add("1.0", {**FILES, "exclusive/ann/taste.json": b"[1]", "exclusive/bob/taste.json": b"[2]"})
    digest = group.publish("1.0")
    published = Published(published_path(group.path))
    manifest = published.manifest(digest)
    as_they_are = {name: data for name, data in FILES.items() if name != "main.py"}
    found = {file.path: (file.sha256, file.bytes) for file in manifest.shared}
    folder = published_path(group.path)
    digest_of_code, _ = found.pop("main.pyc")
    assert found == {name: (sha256(data), len(data)) for name, data in as_they_are.items()}
    for data in as_they_are.values():
        assert (folder / "blobs" / sha256(data)).read_bytes() == data
    assert sha256((folder / "blobs" / digest_of_code).read_bytes()) == digest_of_code
    text = (folder / "manifests" / f"{digest}.json").read_bytes()
    signature = (folder / "manifests" / f"{digest}.sig").read_bytes()
    assert sha256(text) == digest
    assert signing.verify(group.key.public, signing.MANIFEST, text, signature)
    assert not signing.verify(group.key.public, signing.EXCLUSIVE, text, signature)
    assert not signing.verify(group.key.public, signing.MANIFEST, text + b" ", signature)
    # What is for one is not among what is for all, neither by name nor by contents.
    assert b"ann" not in text
    assert not (folder / "blobs" / sha256(b"[1]")).exists()
    own = published.exclusive(digest, "ann")
    assert [(file.path, file.sha256) for file in own.files] == [("taste.json", sha256(b"[1]"))]


def test_a_version_that_no_device_can_install_is_refused(group: Group) -> None:
    own = {"exclusive/ann/task.json": FILES["task.json"]}  # of one subject: all others would have none
    group.add("1.0", {name: data for name, data in FILES.items() if name != "task.json"} | own)
    with pytest.raises(InputError, match=r"shop/highlight 1\.0 has no task\.json, and no device can install it"):
        group.publish("1.0")
    assert not (published_path(group.path) / "versions").exists()


def test_a_version_never_changes(group: Group) -> None:
    group.add("1.0", FILES)
    first = group.publish("1.0")
    assert group.publish("1.0") == first
    group.add("1.0", {**FILES, "main.py": b"print(2)\n"})
    with pytest.raises(InputError, match="a version never changes"):
        group.publish("1.0")
    group.add("1.0", {**FILES, "exclusive/ann/a": b"1"})
    with pytest.raises(InputError, match="a version never changes"):
        group.publish("1.0")
    group.add("1.0", FILES)
    assert group.publish("1.0") == first
    group.add("2.0", {**FILES, "main.py": b"print(2)\n"})
    assert group.publish("2.0") != first


def test_a_version_of_another_key_is_refused(group: Group, tmp_path: Path) -> None:
    group.add("1.0", FILES)
    first = group.publish("1.0")
    own, group.key = group.key, new_key(tmp_path / "other.pem")
    with pytest.raises(InputError, match="other files or another key"):
        group.publish("1.0")
    group.key = own
    assert group.publish("1.0") == first


@pytest.mark.parametrize(
    "name",
    [
        b"..",
        b".git",
        b".hidden",
        b"a\nb",
        b"a\\b",
        b"a:b",
        b"a b",
        b"\xff",
        "é".encode(),
        b"a.",
        b"x" * 201,
        b"-",
        b"%2e",
    ],
)
def test_a_file_with_a_hostile_name_is_refused(group: Group, name: bytes) -> None:
    group.commit(group.tree([("100644", "blob", group.blob(b"1"), name)]), "1")
    with pytest.raises(InputError) as refused:
        group.publish("1")
    assert "is no name for a file" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (published_path(group.path) / "versions").exists()


Tree = Callable[[Group], list[tuple[str, str, str, bytes]]]


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        (lambda group: [("120000", "blob", group.blob(b"/etc/passwd"), b"link")], "a symbolic link"),
        (lambda group: [("160000", "commit", "1" * 40, b"module")], "a submodule"),
        (lambda group: [], "has no files"),
        (
            lambda group: [("100644", "blob", group.blob(b"1"), name) for name in (b"Main.py", b"main.py")],
            "differ only in capital letters",
        ),
        (
            lambda group: [("40000", "tree", group.tree([("100644", "blob", group.blob(b"1"), b"f")]), b"exclusive")],
            "is nobody's",
        ),
        (
            lambda group: [("40000", "tree", group.tree([("100644", "blob", group.blob(b"1"), b"f")]), b"EXCLUSIVE")],
            "is nobody's",
        ),
    ],
)  # fmt: skip
def test_what_is_no_regular_file_of_somebody_is_refused(group: Group, entries: Tree, sentence: str) -> None:
    group.commit(group.tree(entries(group)), "1")
    with pytest.raises(InputError, match=sentence):
        group.publish("1")


def test_a_tree_of_a_billion_files_is_refused_at_once(group: Group) -> None:
    tree = group.tree([("100644", "blob", group.blob(b"1"), b"%02d" % number) for number in range(32)])
    for _ in range(5):
        tree = group.tree([("40000", "tree", tree, b"%02d" % number) for number in range(32)])
    group.commit(tree, "1")
    with pytest.raises(InputError, match="more than 5000 files"):
        group.publish("1")


def test_what_is_too_large_is_refused(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    group.add("1.0", FILES)
    monkeypatch.setattr(publishing, "MOST_TOTAL", 200)
    with pytest.raises(InputError, match="at most 200 bytes"):
        group.publish("1.0")
    monkeypatch.setattr(publishing, "MOST_BYTES", 100)
    with pytest.raises(InputError, match=r"weights/w.bin has 256 bytes, and a file at most 100 bytes"):
        group.publish("1.0")


@pytest.mark.parametrize(
    ("task", "version", "sentence"),
    [
        ("shop/highlight", "9", "has no tag highlight/9"),
        ("shop/highlight", "1.0\n", "no name of a version"),
        ("shop/highlight", "1^{tree}", "no name of a version"),
        ("shop/--upload-pack=x", "1.0", "no name of a task"),
        ("shop/../../x", "1.0", "no name of a task"),
        ("../shop/highlight", "1.0", "no name of a scenario"),
        ("other/highlight", "1.0", "tapml field init"),
    ],
)
def test_a_version_that_there_is_not_is_told(group: Group, task: str, version: str, sentence: str) -> None:
    group.add("1.0", FILES)
    with pytest.raises(InputError, match=sentence):
        publish(group.path, task, version, group.key)


def test_a_tag_has_to_be_on_its_branch(group: Group) -> None:
    group.add("1.0", FILES)
    group.commit(group.tree([("100644", "blob", group.blob(b"1"), b"a")]), "2", branch="other")
    with pytest.raises(InputError, match="not on the branch highlight"):
        group.publish("2")


def test_an_object_that_was_replaced_is_published_as_it_was(group: Group) -> None:
    group.add("1.0", FILES)
    before = group.publish("1.0")
    group.git("replace", group.blob(FILES["main.py"]), group.blob(b"evil"))
    assert group.publish("1.0") == before


def test_a_repository_takes_no_push_that_rewrites_it(group: Group) -> None:
    assert group.git("config", "receive.denyNonFastForwards") == "true"
    with pytest.raises(InputError, match="is there already"):
        Repository.init(group.repository)
