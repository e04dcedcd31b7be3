//! Number of cores for this process. `std::thread::available_parallelism` determines the same number, but it allocates
//! memory and aborts the process if the allocation fails.

use crate::base::file::{LONGEST_PATH, open};
use std::ffi::CStr;
use std::io::{Read as _, Write as _};
use std::sync::OnceLock;

/// Returns the number of cores that this process may use: its affinity mask, limited by the CPU quota of its control
/// groups.
pub fn cores_now() -> usize {
    let in_mask = cores_in_mask();
    let mut buffer = [0; 4096];
    let Some(groups) = read(c"/proc/self/cgroup", &mut buffer) else { return in_mask };
    groups.lines().filter_map(quota).fold(in_mask, usize::min).max(1)
}

/// Returns [`cores_now`], determined once, because the query reads files.
pub fn cores_at_start() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(cores_now)
}

/// Returns the number of cores in the affinity mask.
fn cores_in_mask() -> usize {
    // SAFETY: a mask is an array of integers, for which zero is a valid value.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the mask has the size passed; CPU_COUNT reads an initialized mask.
    let in_mask = unsafe {
        if libc::sched_getaffinity(0, size_of_val(&mask), &raw mut mask) == 0 { libc::CPU_COUNT(&mask) } else { 0 }
    };
    if in_mask > 0 {
        return in_mask as usize;
    }
    // A machine with more cores than a mask of this size has bits. SAFETY: the call has no precondition.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Returns the smallest quota, in cores, of the control group in `line` of /proc/self/cgroup and of its parents. The
/// line is `hierarchy:controllers:path`; version 2 of control groups has no controllers there.
fn quota(line: &str) -> Option<usize> {
    let (controllers, mut group) = line.split_once(':')?.1.split_once(':')?;
    let version_2 = controllers.is_empty();
    if !version_2 && !controllers.split(',').any(|c| c == "cpu") {
        return None;
    }
    let mut smallest = None;
    loop {
        // In a container, the path may be that of the host, which does not exist here. The root does.
        let here = if version_2 { quota_2(group) } else { quota_1(group) };
        smallest = smallest.into_iter().chain(here).min();
        let Some(parent) = group.rfind('/') else { return smallest };
        group = &group[..parent];
    }
}

/// Quota of a group of version 2: the file has `quota period`, in microseconds, or `max period`.
fn quota_2(group: &str) -> Option<usize> {
    let mut buffer = [0; 64];
    let mut numbers = read_in("/sys/fs/cgroup", group, "cpu.max", &mut buffer)?.split_whitespace();
    cores(numbers.next()?, numbers.next()?)
}

/// Quota of a group of version 1: quota and period have a file each. The quota -1 is none.
fn quota_1(group: &str) -> Option<usize> {
    let (mut first, mut second) = ([0; 64], [0; 64]);
    let quota = read_in("/sys/fs/cgroup/cpu", group, "cpu.cfs_quota_us", &mut first)?;
    let period = read_in("/sys/fs/cgroup/cpu", group, "cpu.cfs_period_us", &mut second)?;
    cores(quota.trim(), period.trim())
}

/// Returns quota / period, rounded down.
fn cores(quota: &str, period: &str) -> Option<usize> {
    quota.parse::<usize>().ok()?.checked_div(period.parse().ok()?)
}

/// Reads the file `root``group`/`name`.
fn read_in<'a>(root: &str, group: &str, name: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut path = [0; LONGEST_PATH];
    write!(&mut path[..], "{root}{group}/{name}\0").ok()?;
    read(CStr::from_bytes_until_nul(&path).ok()?, buffer)
}

/// Reads a short file. The part that does not fit is ignored.
fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut file = open(path).ok()?;
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]).ok()? {
            0 => break,
            more => length += more,
        }
    }
    str::from_utf8(&buffer[..length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On the machine of the tests, whatever its quotas are.
    #[test]
    fn as_many_as_the_standard_library_counts() {
        assert_eq!(cores_now(), std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    }

    #[test]
    fn quotas_from_text() {
        assert_eq!(cores("250000", "100000"), Some(2));
        assert_eq!(cores("max", "100000"), None);
        assert_eq!(cores("-1", "100000"), None);
        assert_eq!(cores("1000", "0"), None);
        assert_eq!(quota("3:cpuset:/"), None);
        assert_eq!(quota("no group"), None);
    }
}
