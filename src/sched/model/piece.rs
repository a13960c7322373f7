//! One interval as the model keeps it: 32 bytes.

use super::super::event::ThreadNow;
use super::super::fold::{Interval, Utid};
use super::super::state::TaskState;
use super::super::summary::Window;
use crate::names::NameId;

pub(super) const NONE: u32 = u32::MAX;
const NO_CPU: u16 = u16::MAX;
/// `end` of what never ended.
pub(super) const OPEN: u64 = u64::MAX;

/// The kind of state; with `state` it makes a [`ThreadNow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Running,
    Runnable,
    Preempted,
    Blocked,
}

/// An [`Interval`] in 32 bytes: what only one kind has shares a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece {
    pub start: u64,
    /// [`OPEN`]: had not ended.
    pub end: u64,
    pub row: u32,
    /// Runnable: waker. Preempted: preemptor. Blocked: function. Else [`NONE`].
    other: u32,
    /// Running: end state ([`NONE_STATE`]: none). Else the state it left in.
    state: TaskState,
    cpu: u16,
    pub kind: Kind,
    flags: u8,
    prio: i16,
}

const NONE_STATE: TaskState = TaskState(u16::MAX);
const END_UNKNOWN: u8 = 1;
const FROM_INTERRUPT: u8 = 2;
const IO_WAIT: u8 = 4;
const IO_WAIT_TOLD: u8 = 8;
const HAS_PRIO: u8 = 16;

impl Piece {
    pub fn of(i: &Interval) -> Piece {
        let (kind, other) = match i.state {
            ThreadNow::Running => (Kind::Running, NONE),
            ThreadNow::Runnable => (Kind::Runnable, i.waker.map_or(NONE, |w| w.0)),
            ThreadNow::Preempted => (Kind::Preempted, i.preemptor.unwrap_or(NONE)),
            ThreadNow::Blocked(_) | ThreadNow::Unknown => (Kind::Blocked, i.function.0),
        };
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        Piece {
            start: i.start,
            end: i.end.unwrap_or(OPEN),
            row: i.row,
            other,
            state: if kind == Kind::Running { i.end_state.unwrap_or(NONE_STATE) } else { i.left },
            cpu: i.cpu.and_then(|c| u16::try_from(c).ok()).unwrap_or(NO_CPU),
            kind,
            flags: flag(!i.end_known, END_UNKNOWN)
                | flag(i.from_interrupt == Some(true), FROM_INTERRUPT)
                | flag(i.io_wait == Some(true), IO_WAIT)
                | flag(i.io_wait.is_some(), IO_WAIT_TOLD)
                | flag(i.prio.is_some(), HAS_PRIO),
            prio: i.prio.map_or(0, |p| p.clamp(i16::MIN.into(), i16::MAX.into()) as i16),
        }
    }

    pub fn now(&self) -> ThreadNow {
        match self.kind {
            Kind::Running => ThreadNow::Running,
            Kind::Runnable => ThreadNow::Runnable,
            Kind::Preempted => ThreadNow::Preempted,
            Kind::Blocked => ThreadNow::Blocked(self.state),
        }
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.kind, Kind::Runnable | Kind::Preempted)
    }

    /// In D, and not merely an idle kernel thread.
    pub fn is_uninterruptible(&self) -> bool {
        self.kind == Kind::Blocked
            && self.state.contains(TaskState::UNINTERRUPTIBLE)
            && !self.state.contains(TaskState::IDLE)
    }

    pub fn is_open(&self) -> bool {
        self.end == OPEN
    }

    /// It ended after the window's begin and not after its end: what rows count of what came to an end.
    pub fn ended_within(&self, window: Window) -> bool {
        !self.is_open() && self.end > window.from && self.end <= window.to
    }

    pub fn end_known(&self) -> bool {
        self.flags & END_UNKNOWN == 0
    }

    pub fn cpu(&self) -> Option<u32> {
        (self.cpu != NO_CPU).then_some(u32::from(self.cpu))
    }

    pub fn prio(&self) -> Option<i32> {
        (self.flags & HAS_PRIO != 0).then_some(i32::from(self.prio))
    }

    pub fn end_state(&self) -> Option<TaskState> {
        (self.kind == Kind::Running && self.state != NONE_STATE).then_some(self.state)
    }

    /// Who woke it: `None` not known (or not runnable), `Some(None)` an interrupt.
    pub fn waker(&self) -> Option<Option<Utid>> {
        match self.kind {
            Kind::Runnable if self.flags & FROM_INTERRUPT != 0 => Some(None),
            Kind::Runnable if self.other != NONE => Some(Some(self.other)),
            _ => None,
        }
    }

    pub fn preemptor(&self) -> Option<Utid> {
        (self.kind == Kind::Preempted && self.other != NONE).then_some(self.other)
    }

    pub fn function(&self) -> NameId {
        if self.kind == Kind::Blocked { NameId(self.other) } else { NameId::EMPTY }
    }

    pub fn io_wait(&self) -> Option<bool> {
        (self.flags & IO_WAIT_TOLD != 0).then_some(self.flags & IO_WAIT != 0)
    }

    /// Running: whether it left in a sleeping state (Linux: a voluntary switch), as far as known.
    pub fn left_voluntarily(&self) -> Option<bool> {
        self.end_state().map(|s| !s.is_runnable() && !s.contains(TaskState::PREEMPTED))
    }

    pub fn set_reason(&mut self, io_wait: bool, function: NameId) {
        self.other = function.0;
        self.flags = (self.flags & !IO_WAIT) | IO_WAIT_TOLD | if io_wait { IO_WAIT } else { 0 };
    }
}
