"""What a run computed lies in a file, and is read from there."""

import mmap
import re
import resource
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tapml.carving.spill import Spill, let_go


def of_file(array: np.ndarray) -> bool:
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap) or (isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.bool_, ml_dtypes.bfloat16])
def test_what_is_put_is_read_again(tmp_path: Path, dtype: type) -> None:
    arrays = [(np.arange(count).reshape(-1, 5) % 7).astype(dtype) for count in (70_000, 130_005, 200_000)]
    with Spill(tmp_path) as spill:
        put = [spill.put(array) for array in arrays]
    assert not [*tmp_path.iterdir()]
    for array, found in zip(arrays, put, strict=True):
        assert of_file(found)
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        for _ in range(2):
            assert found.tobytes() == array.tobytes()
            let_go([found.T, found])


def test_small_arrays_stay_in_memory(tmp_path: Path) -> None:
    array = np.zeros(100, np.float32)
    with Spill(tmp_path) as spill:
        assert spill.put(array) is array
    let_go([array])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's count of mapped pages")
def test_what_is_let_go_is_not_held(tmp_path: Path) -> None:
    def of_files() -> int:
        found = re.search(r"RssFile:\s+(\d+) kB", Path("/proc/self/status").read_text())
        assert found
        return int(found[1]) * 1024

    with Spill(tmp_path) as spill:
        array = spill.put(np.ones(8 << 20, np.float32))
        let_go([array])
        before = of_files()
        assert array.sum() == 8 << 20
        assert of_files() - before > array.nbytes // 2
        let_go([array])
        assert of_files() - before < array.nbytes // 8


def test_a_full_disk_leaves_arrays_in_memory(tmp_path: Path) -> None:
    array, before = np.ones(1 << 16, np.float32), resource.getrlimit(resource.RLIMIT_FSIZE)
    with Spill(tmp_path) as spill:
        first = spill.put(array)
        resource.setrlimit(resource.RLIMIT_FSIZE, (array.nbytes, before[1]))
        try:
            second, third = spill.put(array), spill.put(array)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert second is array
    assert third is array
    assert of_file(first)
    assert first.tobytes() == array.tobytes()


def test_a_folder_that_there_is_not_is_no_obstacle(tmp_path: Path) -> None:
    array = np.ones(1 << 16, np.float32)
    with Spill(tmp_path / "nowhere") as spill:
        assert spill.put(array) is array
