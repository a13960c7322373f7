//! `CompactSched`: scheduling events as columns. The hot path of decoding.

use super::packet::Context;
use crate::names::{NameId, NameTable};
use crate::perfetto::wire::{self, Fields, Malformed, Value, put_varint};
use std::borrow::Cow;

/// Columns by field number; 5 is the name table.
const COLUMNS: usize = 13;

/// The columns of one bundle. Normally each is one packed field, borrowed; split or unpacked ones are joined.
#[derive(Debug, Default)]
pub(super) struct Compact<'a> {
    columns: [Cow<'a, [u8]>; COLUMNS],
}

impl<'a> Compact<'a> {
    /// Adds the columns of one `compact_sched` field; names go to `table`.
    pub(super) fn add(
        &mut self,
        bytes: &'a [u8],
        context: Context,
        names: &mut NameTable,
        table: &mut Vec<NameId>,
    ) -> Result<(), Malformed> {
        let mut fields = Fields::new(bytes);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (5, Value::Bytes(name, _)) => table.push(names.intern(&context.comm(name))),
                (1..=12, Value::Bytes(column, _)) => {
                    let slot = &mut self.columns[field as usize];
                    if slot.is_empty() {
                        *slot = Cow::Borrowed(column);
                    } else {
                        slot.to_mut().extend_from_slice(column);
                    }
                }
                (1..=12, Value::Uint(value)) => put_varint(self.columns[field as usize].to_mut(), value),
                _ => {}
            }
        }
        Ok(())
    }

    fn column(&self, field: usize) -> Column<'_> {
        Column { bytes: &self.columns[field], at: 0 }
    }

    /// The switches, oldest first; `stand_ins`: which of them are none, as the packet's extension says.
    pub(super) fn switches<'s>(&'s self, stand_ins: &'s [u32]) -> Switches<'s> {
        Switches {
            ts: 0,
            until_stand_in: stand_ins.first().copied(),
            stand_ins: stand_ins.get(1..).unwrap_or_default().iter(),
            ts_column: self.column(1),
            state: self.column(2),
            pid: self.column(3),
            prio: self.column(4),
            comm: self.column(6),
        }
    }

    /// The wakings, oldest first.
    pub(super) fn wakings(&self) -> Wakings<'_> {
        Wakings {
            ts: 0,
            ts_column: self.column(7),
            pid: self.column(8),
            cpu: self.column(9),
            prio: self.column(10),
            comm: self.column(11),
            // Perfetto before v34 does not write the flags.
            flags: (!self.columns[12].is_empty()).then(|| self.column(12)),
        }
    }
}

#[derive(Debug, Clone)]
struct Column<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Column<'_> {
    #[inline]
    fn next(&mut self) -> Result<u64, Malformed> {
        wire::varint(self.bytes, &mut self.at)
    }

    fn is_done(&self) -> bool {
        self.at >= self.bytes.len()
    }
}

/// One row of the switch columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct SwitchRow {
    pub ts: u64,
    pub prev_state: i64,
    pub next_pid: i32,
    pub next_prio: i32,
    pub comm: u32,
    /// It was not traced; the thread is seen to run from now on.
    pub stands_in: bool,
}

/// Walks the switch columns in step.
pub(super) struct Switches<'a> {
    ts: u64,
    stand_ins: std::slice::Iter<'a, u32>,
    /// Rows before the next one that stands in.
    until_stand_in: Option<u32>,
    ts_column: Column<'a>,
    state: Column<'a>,
    pid: Column<'a>,
    prio: Column<'a>,
    comm: Column<'a>,
}

impl Switches<'_> {
    /// The next row; `None` at the end. Columns of different lengths are malformed.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<SwitchRow>, Malformed> {
        if self.ts_column.is_done() {
            return ended([&self.state, &self.pid, &self.prio, &self.comm].into_iter().all(Column::is_done));
        }
        self.ts = self.ts.wrapping_add(self.ts_column.next()?);
        let stands_in = self.stands_in();
        Ok(Some(SwitchRow {
            ts: self.ts,
            stands_in,
            prev_state: self.state.next()? as i64,
            next_pid: self.pid.next()? as i32,
            next_prio: self.prio.next()? as i32,
            comm: self.comm.next()? as u32,
        }))
    }

    /// Whether the row at hand stands in for a switch.
    #[inline]
    fn stands_in(&mut self) -> bool {
        match &mut self.until_stand_in {
            None => false,
            Some(0) => {
                // Of the difference to the next one, this row is the first.
                self.until_stand_in = self.stand_ins.next().and_then(|by| by.checked_sub(1));
                true
            }
            Some(rows) => {
                *rows -= 1;
                false
            }
        }
    }
}

/// One row of the waking columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct WakingRow {
    pub ts: u64,
    pub pid: i32,
    pub target_cpu: i32,
    pub prio: i32,
    pub comm: u32,
    pub flags: u8,
}

/// Walks the waking columns in step.
pub(super) struct Wakings<'a> {
    ts: u64,
    ts_column: Column<'a>,
    pid: Column<'a>,
    cpu: Column<'a>,
    prio: Column<'a>,
    comm: Column<'a>,
    flags: Option<Column<'a>>,
}

impl Wakings<'_> {
    /// The next row; `None` at the end. Columns of different lengths are malformed.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<WakingRow>, Malformed> {
        if self.ts_column.is_done() {
            return ended([&self.pid, &self.cpu, &self.prio, &self.comm].into_iter().all(Column::is_done));
        }
        self.ts = self.ts.wrapping_add(self.ts_column.next()?);
        Ok(Some(WakingRow {
            ts: self.ts,
            pid: self.pid.next()? as i32,
            target_cpu: self.cpu.next()? as i32,
            prio: self.prio.next()? as i32,
            comm: self.comm.next()? as u32,
            flags: match &mut self.flags {
                Some(flags) => flags.next()? as u8,
                None => 0,
            },
        }))
    }
}

fn ended<T>(all_done: bool) -> Result<Option<T>, Malformed> {
    if all_done { Ok(None) } else { Err(Malformed { at: 0, what: "compact columns of different lengths" }) }
}
