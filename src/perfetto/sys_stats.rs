//! Counters that Perfetto has fields for (`SysStats`): memory and pressure, so that its own tools draw them.
//!
//! The names are those the recorder gives its samples. What has no field here goes in our extension.

use super::wire::{BYTES, Fields, Malformed, put_key, put_uint, put_varint, varint_len};

/// A place in `SysStats`: field of the list, and the key within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    field: u32,
    key: u64,
    /// Our unit in terms of theirs: `/proc/meminfo`'s kB for memory.
    scale: u64,
}

const MEMINFO: u32 = 1;
const PSI: u32 = 14;

const fn memory(key: u64) -> Place {
    Place { field: MEMINFO, key, scale: 1024 }
}

const fn pressure(key: u64) -> Place {
    Place { field: PSI, key, scale: 1 }
}

/// Names and places: `MeminfoCounters` and `SysStats.PsiSample.PsiResource` of the public protos.
const COUNTERS: &[(&str, Place)] = &[
    ("mem.total_bytes", memory(1)),
    ("mem.free_bytes", memory(2)),
    ("mem.available_bytes", memory(3)),
    ("mem.buffers_bytes", memory(4)),
    ("mem.cached_bytes", memory(5)),
    ("mem.swap_total_bytes", memory(15)),
    ("mem.swap_free_bytes", memory(16)),
    ("mem.dirty_bytes", memory(17)),
    ("mem.writeback_bytes", memory(18)),
    ("mem.anonymous_bytes", memory(19)),
    ("mem.mapped_bytes", memory(20)),
    ("mem.shmem_bytes", memory(21)),
    ("mem.slab_bytes", memory(22)),
    ("psi.cpu.some.total_ns", pressure(1)),
    ("psi.cpu.full.total_ns", pressure(2)),
    ("psi.io.some.total_ns", pressure(3)),
    ("psi.io.full.total_ns", pressure(4)),
    ("psi.memory.some.total_ns", pressure(5)),
    ("psi.memory.full.total_ns", pressure(6)),
];

/// Appends a sample to the `SysStats` message in `out`; false when it has no place there for just this value.
pub(super) fn put(name: &[u8], value: f64, out: &mut Vec<u8>) -> bool {
    let Some((_, place)) = COUNTERS.iter().find(|(known, _)| known.as_bytes() == name) else { return false };
    // Only what comes back as it was: whole numbers of their unit that a double holds exactly.
    let scaled = value / place.scale as f64;
    if scaled.fract() != 0.0 || !(0.0..=9.0e15).contains(&scaled) {
        return false;
    }
    let theirs = scaled as u64;
    put_key(out, place.field, BYTES);
    put_varint(out, (2 + varint_len(place.key) + varint_len(theirs)) as u64);
    put_uint(out, 1, place.key);
    put_uint(out, 2, theirs);
    true
}

/// Calls `each` with name and value of every counter in a `SysStats` message that has a name here.
pub(super) fn read(bytes: &[u8], mut each: impl FnMut(&'static str, f64)) -> Result<(), Malformed> {
    let mut fields = Fields::new(bytes);
    while let Some((field, value)) = fields.next()? {
        if field != MEMINFO && field != PSI {
            continue;
        }
        let (mut key, mut number) = (0, 0);
        let mut entry = Fields::new(value.bytes());
        while let Some((field, value)) = entry.next()? {
            match field {
                1 => key = value.uint(),
                2 => number = value.uint(),
                _ => {}
            }
        }
        if let Some((name, place)) = COUNTERS.iter().find(|(_, place)| place.field == field && place.key == key) {
            each(name, number as f64 * place.scale as f64);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_place_comes_back_exactly() {
        let mut out = Vec::new();
        assert!(put(b"mem.free_bytes", 102_400.0, &mut out));
        assert_eq!(out, [10, 4, 8, 2, 16, 100], "100 kB, as in /proc/meminfo");
        assert!(put(b"psi.io.full.total_ns", 7e15, &mut out));
        for (name, value) in [("mem.free_bytes", 102_401.0), ("mem.free_bytes", -1024.0), ("mem.free_bytes", f64::NAN)]
        {
            assert!(!put(name.as_bytes(), value, &mut out), "{name} {value}");
        }
        assert!(!put(b"psi.io.full.total_ns", 1e300, &mut out) && !put(b"load.1m", 1.0, &mut out));
        let mut got = Vec::new();
        read(&out, |name, value| got.push((name, value))).unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(got, [("mem.free_bytes", 102_400.0), ("psi.io.full.total_ns", 7e15)]);
    }
}
