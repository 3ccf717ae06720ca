"""Files that are damaged, or no files: an error that names them, and no other rows than were written."""

import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import whimbrel as wb


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_page_with_another_checksum_is_an_error(tmp_path, compression, version):
    table = pa.table({"n": list(range(5000)), "t": [f"text {i % 900}" for i in range(5000)]})
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, compression=compression, data_page_version=version, write_page_checksum=True)
    written = path.read_bytes()
    rows = wb.read(str(path)).to_rows()
    assert len(rows) == 5000
    metadata = pq.ParquetFile(path).metadata.row_group(0)
    numbers = random.Random(7)
    errors = 0
    for column in range(2):
        chunk = metadata.column(column)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        # The header of the first page is shorter than this.
        places = range(start + 200, start + chunk.total_compressed_size)
        for place in numbers.sample(places, 10):
            damaged = bytearray(written)
            damaged[place] ^= 0x40
            path.write_bytes(damaged)
            try:
                assert wb.read(str(path)).to_rows() == rows
            except wb.DataError as error:
                assert "x.parquet" in str(error)
                errors += 1
    # A few may have hit what the header of a page says of its values.
    assert errors >= 15


def test_an_arrow_file_that_claims_more_than_it_has_is_an_error(tmp_path):
    path = tmp_path / "x.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("n", pa.int64())])) as writer:
        writer.write_table(pa.table({"n": list(range(1000))}))
    written = path.read_bytes()
    errors = 0
    for place in range(len(written) - 300, len(written) - 10):
        damaged = bytearray(written)
        damaged[place : place + 8] = (6473924464352272).to_bytes(8, "little")
        path.write_bytes(damaged[: len(written)])
        try:
            wb.read(str(path)).to_arrow()
        except wb.DataError as error:
            assert "x.arrow" in str(error)
            errors += 1
    assert errors > 20


def test_a_pipe_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    os.mkfifo(path)
    with pytest.raises(wb.InvalidError, match="is a pipe"):
        wb.read(str(path))


def test_passwords_are_not_shown(tmp_path):
    for url in [
        "https://ann:s3cret@localhost:1/x.parquet",
        "https://localhost:1/x.parquet?sig=s3cret&b=s3cret",
    ]:
        with pytest.raises(wb.WhimbrelError) as error:
            wb.read(url)
        assert "s3cret" not in str(error.value)
        assert "localhost" in str(error.value)
