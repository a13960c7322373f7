//! CPU lists as Linux writes them: `0-3,8,10-11`. Ids can be sparse and pass 1024.

/// The ids of a list such as `0-3,8,10-11`, ascending, each once. `None` if it does not follow the grammar.
///
/// Also reads the strided form `0-15:2/4` (the first two of every four).
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (range, stride) = match part.split_once(':') {
            Some((range, stride)) => (range, Some(stride)),
            None => (part, None),
        };
        let (first, last): (u32, u32) = match range.split_once('-') {
            Some((first, last)) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
            None => (range.trim().parse().ok()?, range.trim().parse().ok()?),
        };
        let (used, group): (u32, u32) = match stride {
            Some(stride) => {
                let (used, group) = stride.split_once('/')?;
                (used.trim().parse().ok()?, group.trim().parse().ok()?)
            }
            None => (1, 1),
        };
        if first > last || last >= MAX_CPUS || group == 0 || used == 0 || used > group {
            return None;
        }
        cpus.extend((first..=last).filter(|cpu| (cpu - first) % group < used));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// No kernel is built for more (NR_CPUS is at most 8192); keeps a wrong number from filling memory.
const MAX_CPUS: u32 = 1 << 16;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn case_19_sparse_ids_keep_their_numbers() {
        assert_eq!(parse_cpu_list("0-3,8,10-11\n").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cpu_list("").unwrap(), [0_u32; 0]);
        assert_eq!(parse_cpu_list("5,5,1-2").unwrap(), [1, 2, 5]);
        assert_eq!(parse_cpu_list("0-7:2/4").unwrap(), [0, 1, 4, 5]);
    }

    #[test]
    fn case_18_lists_of_any_length() {
        let text: Vec<String> = (0..3000).step_by(2).map(|n: u32| n.to_string()).collect();
        assert_eq!(parse_cpu_list(&text.join(",")).unwrap().len(), 1500);
        assert_eq!(parse_cpu_list("0-2047").unwrap().len(), 2048);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in ["x", "3-1", "1-", "-1", "0-4294967295", "0-3:0/2", "0-3:1/0", "0-3:3/2", "1 2"] {
            assert_eq!(parse_cpu_list(bad), None, "{bad}");
        }
    }
}
