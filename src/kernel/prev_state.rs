//! The layout of `prev_state`, read from sched_switch's `print fmt`.
//!
//! That expression holds the flag table (`{ 0x01, "S" }, …`) and the bit that prints as "+". Both moved in
//! 4.8 and 4.14, and vendors move them too, so the text beats the release number. Understands just these
//! two parts of the expression.

use super::format::EventFormat;
use crate::sched::state::StateLayout;

/// The layout said by sched_switch's format; `None` when its `print fmt` has no table or no "+" that can be read.
pub fn layout_of(sched_switch: &EventFormat) -> Option<StateLayout> {
    let text = sched_switch.print_fmt.as_str();
    let flags = text.split_once("__print_flags(")?.1;
    let (table, behind) = flags.split_at(flags.find("\"R\"")?);
    let table: Vec<(u64, &str)> = table.split('{').skip(1).filter_map(flag).collect();
    let condition = behind.split_once("? \"+\"")?.0;
    let mask = condition.rsplit_once("prev_state")?.1.trim_start().strip_prefix('&')?;
    let preempted = constant(mask)?;
    (!table.is_empty()).then(|| StateLayout::from_flags(&table, preempted))
}

/// One entry of the table, the text behind its `{`: ` 0x00000001, "S" }, `.
fn flag(entry: &str) -> Option<(u64, &str)> {
    let (value, rest) = entry.split_once(',')?;
    let letter = rest.split_once('"')?.1.split_once('"')?.0;
    Some((constant(value)?, letter))
}

/// Value of an integer expression of numbers, `|`, `+`, `-`, `<<` and parentheses. `None` for anything else.
fn constant(text: &str) -> Option<u64> {
    let mut parser = Parser { rest: text.trim_start(), depth: 0 };
    let value = parser.or()?;
    parser.rest.is_empty().then_some(value)
}

/// Deepest nesting of parentheses; the kernel's own text has four.
const MAX_DEPTH: u32 = 32;

struct Parser<'t> {
    rest: &'t str,
    depth: u32,
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(token) else { return false };
        self.rest = rest.trim_start();
        true
    }

    fn or(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.take("|") {
            value |= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        while self.take("<<") {
            value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
        }
        Some(value)
    }

    fn sum(&mut self) -> Option<u64> {
        let mut value = self.atom()?;
        loop {
            if self.take("+") {
                value = value.checked_add(self.atom()?)?;
            } else if self.take("-") {
                value = value.checked_sub(self.atom()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<u64> {
        if self.take("(") {
            self.depth += 1;
            let value = if self.depth <= MAX_DEPTH { self.or() } else { None }?;
            self.depth -= 1;
            return self.take(")").then_some(value);
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        let number = number.trim_end_matches(['u', 'U', 'l', 'L']);
        match number.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => number.parse().ok(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::testing::Kernel;
    use crate::sched::state::TaskState;

    #[test]
    fn case_7_every_kernels_print_fmt_says_its_layout() {
        for kernel in Kernel::ALL {
            let format = EventFormat::parse(kernel.sched_switch()).unwrap();
            assert_eq!(layout_of(&format), Some(StateLayout::for_release(kernel.release())), "{kernel:?}");
        }
    }

    #[test]
    fn case_7_a_moved_bit_is_followed() {
        let mut format = EventFormat::parse(Kernel::V6_18.sched_switch()).unwrap();
        format.print_fmt =
            r#"REC->prev_state & 0x1ff ? __print_flags(REC->prev_state, "|", { 0x1, "S" }, { 0x80, "P" })
            : "R", REC->prev_state & (1 << (4 + 5)) ? "+" : """#
                .to_owned();
        let layout = layout_of(&format).unwrap();
        assert_eq!(layout.decode(0x200), TaskState::PREEMPTED);
        assert_eq!(layout.decode(0x80), TaskState::PARKED);
        assert_eq!(layout.decode(2), TaskState::UNKNOWN);
    }

    #[test]
    fn expressions_are_evaluated_or_refused() {
        assert_eq!(constant("(((0x0000 | 0x0001 | 0x0040) + 1) << 1)"), Some(0x84));
        assert_eq!(constant("4096UL - 1 "), Some(4095));
        assert_eq!(constant("1 << 70"), None);
        assert_eq!(constant("0 - 1"), None);
        assert_eq!(constant("TASK_MAX"), None);
        assert_eq!(constant("1 ? 2"), None);
        assert_eq!(constant(""), None);
        assert_eq!(constant(&"(".repeat(100_000)), None, "no stack overflow");
        let mut format = EventFormat::parse(Kernel::V6_18.sched_switch()).unwrap();
        for text in ["", "__print_flags(", r#"__print_flags({1,"S"} : "R", REC->prev_state & x ? "+""#] {
            text.clone_into(&mut format.print_fmt);
            assert_eq!(layout_of(&format), None);
        }
    }
}
