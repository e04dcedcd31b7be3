//! Memory of the readers: at most 32 times the text plus 1 MB for any file, and 8 bytes per row for row pointers. This
//! program has only one test, because it counts the memory of the whole process.

#[path = "../common/mod.rs"]
mod common;

use common::sparse::*;
use common::status;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes in use and their maximum.
struct Counting;

static BYTES_IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

fn count_allocation(bytes: usize) {
    let now = BYTES_IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK_BYTES.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: the system allocator does the work; this type only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation(layout.size());
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES_IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        // Both blocks exist during the copy.
        count_allocation(new);
        BYTES_IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(at, layout, new) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Reads a file. Returns the largest number of additional bytes in use, and the number of entries.
fn peak_bytes_of_read(folder: &Folder, text: &[u8]) -> (usize, Option<i64>) {
    let path = folder.file("matrix", text);
    let before = BYTES_IN_USE.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    let read = Solver::read(&path);
    let peak = PEAK_BYTES.load(Ordering::Relaxed) - before;
    (peak, read.ok().map(|s| s.int(key::NONZEROS)))
}

#[test]
fn memory_of_readers_is_proportional_to_the_text() {
    let folder = Folder::new("memory");
    let count = 400_000;
    let lines = |line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let head = |field: &str, symmetry: &str, counts: String| {
        format!("%%MatrixMarket matrix coordinate {field} {symmetry}\n{counts}\n")
    };
    let mut cards = String::new();
    // 900 x 900, nearly full, in fields of three and six columns.
    let (n, per_column) = (900, 800);
    let entries = n * per_column;
    let cards_of = |count: usize, per_card: usize| count.div_ceil(per_card);
    let _ = writeln!(cards, "t\n 1 {} {} 0 0", cards_of(n + 1, 12), cards_of(entries, 26));
    let _ = writeln!(cards, "PUA {n} {n} {entries} 0\n(12I6)          (26I3)");
    let fields = |cards: &mut String, all: Vec<usize>, width: usize, per_card: usize| {
        for card in all.chunks(per_card) {
            card.iter().for_each(|k| write!(cards, "{k:width$}").expect("a text"));
            cards.push('\n');
        }
    };
    fields(&mut cards, (0..=n).map(|j| 1 + j * per_column).collect(), 6, 12);
    fields(&mut cards, (0..entries).map(|k| 1 + k % per_column).collect(), 3, 26);
    // One character per entry of a triangle: rows 1 to 9 of all later columns (10, 11, ...).
    let (many, mut symmetric) = (99_999, String::new());
    let entries = 9 * (many - 9);
    let _ = writeln!(symmetric, "t\n 1 {} {} 0 0", cards_of(many + 1, 13), cards_of(entries, 80));
    let _ = writeln!(symmetric, "PSA {many} {many} {entries} 0\n(13I6)          (80I1)");
    fields(&mut symmetric, (0..=many).map(|j| 1 + 9 * j.saturating_sub(9)).collect(), 6, 13);
    fields(&mut symmetric, (0..entries).map(|k| 1 + k % 9).collect(), 1, 80);
    let samples = [
        (
            "short lines",
            head("pattern", "general", format!("9 9 {count}")) + &lines(&|k| format!("{} {}\n", 1 + k % 9, 1 + k % 7)),
        ),
        (
            "both triangles of short lines",
            head("pattern", "symmetric", format!("9 9 {count}"))
                + &lines(&|k| if k % 2 == 0 { format!("{} 1\n", 2 + k % 4) } else { format!("1 {}\n", 6 + k % 4) }),
        ),
        ("one place", head("pattern", "symmetric", format!("9 9 {count}")) + &"1 1\n".repeat(count)),
        (
            "values",
            head("real", "general", format!("999 999 {count}"))
                + &lines(&|k| format!("{} {} 1\n", 1 + k % 999, 1 + (k * k) % 997)),
        ),
        ("an array", format!("%%MatrixMarket matrix array real general\n{count} 1\n") + &"1\n".repeat(count)),
        (
            "a symmetric array",
            "%%MatrixMarket matrix array real symmetric\n900 900\n".to_owned() + &"1\n".repeat(900 * 901 / 2),
        ),
        ("cards", cards),
        ("cards of a triangle", symmetric),
    ];
    for (name, text) in &samples {
        let (peak, nonzeros) = peak_bytes_of_read(&folder, text.as_bytes());
        let rows = match *name {
            "an array" => count,
            "cards of a triangle" => many,
            _ => 1000,
        };
        assert!(nonzeros.is_some(), "{name} is read");
        assert!(
            peak <= 32 * text.len() + (1 << 20) + 8 * rows,
            "{name}: {:.1} bytes per byte of text",
            peak as f64 / text.len() as f64
        );
        // The limit also holds if the file ends early: announced counts are not trusted.
        let cut = &text.as_bytes()[..text.len() / 3];
        let (peak, nonzeros) = peak_bytes_of_read(&folder, cut);
        assert_eq!(nonzeros, None, "{name} ends early");
        assert!(
            peak <= 32 * cut.len() + (1 << 20) + 8 * rows,
            "{name}, cut: {:.1} bytes per byte of text",
            peak as f64 / cut.len() as f64
        );
    }
    for counts in ["999999999 999999999 999999999", "3 3 999999999999", "2 2 9223372036854775807"] {
        let (peak, nonzeros) =
            peak_bytes_of_read(&folder, (head("real", "symmetric", counts.to_owned()) + "1 1 1\n").as_bytes());
        assert!(nonzeros.is_none() && peak < 1 << 20, "{counts}: {peak} bytes");
    }
    rejects_row_pointers_beyond_available_memory(&folder);
}

/// Row pointers that exceed the available memory are an error that names their bytes; they are not allocated.
fn rejects_row_pointers_beyond_available_memory(folder: &Folder) {
    let text = "%%MatrixMarket matrix coordinate real general\n900000000000 3 1\n800000000000 2 1.5\n";
    let failure = Solver::read(&folder.file("matrix", text)).map(|_| ()).unwrap_err();
    failure.expect(status::MEMORY, &["7200000000008 bytes for row pointers"]);
}
