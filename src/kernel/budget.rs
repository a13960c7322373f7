//! Sharing the ring buffer's memory over the CPUs: a total, capped by a share of RAM.

/// The kernel's page on x86-64 and the smallest sub-buffer.
const SMALLEST_SUB_BUFFER: u64 = 4096;
/// Sub-buffers a CPU should have at least; below that smaller sub-buffers are taken.
const WANTED_SUB_BUFFERS: u64 = 8;
/// Sub-buffers a CPU gets whatever the budget: one is the reader's, and the kernel wants two more.
const LEAST_SUB_BUFFERS: u64 = 4;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// Bytes for all CPUs together.
    pub total: u64,
    /// Largest share of RAM to take, 0 to 1.
    pub ram_share: f64,
    /// Bytes of one sub-buffer (a power of two from 4 KiB); smaller ones are taken if the CPUs' shares are small.
    pub sub_buffer: u64,
}

/// Who shares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Bytes of RAM.
    pub ram: u64,
    /// Number of CPUs that have a buffer.
    pub cpus: u32,
}

/// What each CPU gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// For `buffer_size_kb`: KiB per CPU.
    pub per_cpu_kb: u64,
    /// Bytes of one sub-buffer.
    pub sub_buffer: u64,
    /// The share of RAM was the limit.
    pub capped_by_ram: bool,
}

impl Budget {
    /// Shares out.
    pub fn share(wanted: &Wanted, shares: &Shares) -> Budget {
        let cap = (shares.ram as f64 * wanted.ram_share.clamp(0.0, 1.0)) as u64;
        let total = wanted.total.min(cap);
        let each = total / u64::from(shares.cpus.max(1));
        let mut sub_buffer = wanted.sub_buffer.max(SMALLEST_SUB_BUFFER).next_power_of_two();
        while sub_buffer > SMALLEST_SUB_BUFFER && each < sub_buffer.saturating_mul(WANTED_SUB_BUFFERS) {
            sub_buffer /= 2;
        }
        let each = each.max(sub_buffer * LEAST_SUB_BUFFERS);
        Budget { per_cpu_kb: each / 1024, sub_buffer, capped_by_ram: cap < wanted.total }
    }

    /// Bytes for all CPUs.
    pub fn total(&self, cpus: u32) -> u64 {
        self.per_cpu_kb.saturating_mul(1024).saturating_mul(u64::from(cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn share(total: u64, ram: u64, cpus: u32) -> Budget {
        Budget::share(&Wanted { total, ram_share: 0.02, sub_buffer: 65536 }, &Shares { ram, cpus })
    }

    #[test]
    fn case_22_a_total_is_shared_out_over_384_cpus() {
        let many = share(64 * MIB, 512 * GIB, 384);
        // 64 MiB / 384 = 174,762 bytes = 170 KiB: eight sub-buffers of 16 KiB fit, of 32 KiB they do not.
        assert_eq!(many, Budget { per_cpu_kb: 170, sub_buffer: 16384, capped_by_ram: false });
        assert!(many.total(384) <= 64 * MIB);
        let two = share(64 * MIB, 24 * GIB, 2);
        assert_eq!(two, Budget { per_cpu_kb: 32768, sub_buffer: 65536, capped_by_ram: false });
    }

    #[test]
    fn case_22_ram_is_the_cap() {
        // 2 % of 1 GiB is 21,474,836 bytes, half of it 10,737,418 = 10,485 KiB.
        let small = share(64 * MIB, GIB, 2);
        assert_eq!(small, Budget { per_cpu_kb: 10485, sub_buffer: 65536, capped_by_ram: true });
    }

    #[test]
    fn the_least_is_four_small_sub_buffers() {
        let tiny = share(0, GIB, 0);
        assert_eq!(tiny, Budget { per_cpu_kb: 16, sub_buffer: 4096, capped_by_ram: false });
        let odd = Budget::share(
            &Wanted { total: u64::MAX, ram_share: f64::NAN, sub_buffer: 5000 },
            &Shares { ram: u64::MAX, cpus: 1 },
        );
        assert_eq!(odd.sub_buffer, 4096);
        assert_eq!(odd.per_cpu_kb, 16, "a share that is no number takes nothing beyond the least");
    }
}
