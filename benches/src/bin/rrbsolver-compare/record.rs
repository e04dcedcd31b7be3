//! The results of a build in one case, and the differences between two builds.

/// One result.
#[derive(Clone, Debug)]
enum Answer {
    /// A status, a count or a choice.
    Count(i64),
    /// An error message.
    Words(String),
    /// Numbers, compared bitwise.
    Reals(Vec<f64>),
}

/// All results of one case, in the order of the calls.
#[derive(Clone, Debug, Default)]
pub struct Record(Vec<(String, Answer)>);

impl Record {
    /// Adds an integer.
    pub fn count(&mut self, name: &str, value: i64) {
        self.0.push((name.to_owned(), Answer::Count(value)));
    }

    /// Adds an error message.
    pub fn words(&mut self, name: &str, text: String) {
        self.0.push((name.to_owned(), Answer::Words(text)));
    }

    /// Adds an array.
    pub fn reals(&mut self, name: &str, values: Vec<f64>) {
        self.0.push((name.to_owned(), Answer::Reals(values)));
    }

    /// Adds the status of a call, and its error message if it failed. Returns whether the call succeeded.
    pub fn status(&mut self, name: &str, status: i32, message: impl FnOnce() -> String) -> bool {
        self.count(name, status.into());
        if status < 0 {
            self.words(name, message());
        }
        status >= 0
    }
}

/// Kind of the most severe difference of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Only numbers differ, by rounding or more.
    Bits,
    /// An error message differs.
    Words,
    /// A status, a count, a choice or a length differs.
    Counts,
}

/// The differences of a case.
#[derive(Debug, PartialEq)]
pub struct Difference {
    /// Kind of the most severe difference.
    pub kind: Kind,
    /// Description of all differences.
    pub text: String,
}

/// Compares two records; none if they are bitwise identical.
pub fn compare(old: &Record, new: &Record) -> Option<Difference> {
    let mut kinds = Vec::new();
    let mut texts = Vec::new();
    for ((name, a), (other, b)) in old.0.iter().zip(&new.0) {
        // A failed call has an additional result and is followed by different calls.
        let found = if name == other { differ(a, b) } else { Some((Kind::Counts, format!("{other} there"))) };
        if let Some((kind, text)) = found {
            kinds.push(kind);
            texts.push(format!("{name}: {text}"));
        }
        if name != other {
            break;
        }
    }
    if kinds.is_empty() && old.0.len() != new.0.len() {
        kinds.push(Kind::Counts);
        texts.push(format!("{} and {} answers", old.0.len(), new.0.len()));
    }
    let kind = kinds.into_iter().max()?;
    Some(Difference { kind, text: texts.join("; ") })
}

fn differ(a: &Answer, b: &Answer) -> Option<(Kind, String)> {
    match (a, b) {
        (Answer::Count(a), Answer::Count(b)) => (a != b).then(|| (Kind::Counts, format!("{a} and {b}"))),
        (Answer::Words(a), Answer::Words(b)) => (a != b).then(|| (Kind::Words, format!("\"{a}\" and \"{b}\""))),
        (Answer::Reals(a), Answer::Reals(b)) if a.len() != b.len() => {
            Some((Kind::Counts, format!("{} and {} values", a.len(), b.len())))
        }
        (Answer::Reals(a), Answer::Reals(b)) => {
            let differing = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
            let text = || match (&a[..], &b[..]) {
                ([a], [b]) => format!("{a:e} and {b:e}"),
                _ => format!("{differing} of {} values, by {:.1e} of the largest", a.len(), relative(a, b)),
            };
            (differing > 0).then(|| (Kind::Bits, text()))
        }
        _ => Some((Kind::Counts, "an answer of another sort".to_owned())),
    }
}

/// Returns the largest difference relative to the largest number; infinite if one of two numbers is not finite.
fn relative(a: &[f64], b: &[f64]) -> f64 {
    let differing = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits());
    let largest = a.iter().filter(|a| a.is_finite()).fold(0.0, |m: f64, a| m.max(a.abs()));
    let difference = |a: f64, b: f64| if a.is_finite() && b.is_finite() { (a - b).abs() } else { f64::INFINITY };
    // The halves avoid overflow.
    let most = differing.fold(0.0, |m: f64, (a, b)| m.max(difference(0.5 * a, 0.5 * b)));
    if most == 0.0 { 0.0 } else { most / (0.5 * largest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let mut record = Record::default();
        record.status("solve", 0, || unreachable!());
        record.count("iterations", 12);
        record.words("message", "as it is".to_owned());
        record.reals("x", vec![1.0, -0.0, f64::NAN, 4.0]);
        record
    }

    #[test]
    fn equal_records_are_equal() {
        assert_eq!(compare(&record(), &record()), None);
    }

    #[test]
    fn one_bit_is_seen() {
        let change = |values: &[f64]| {
            let mut other = record();
            other.0.pop();
            other.reals("x", values.to_vec());
            compare(&record(), &other).expect("they differ")
        };
        let last = f64::from_bits(4.0f64.to_bits() + 1);
        let found = change(&[1.0, -0.0, f64::NAN, last]);
        assert_eq!(found.kind, Kind::Bits);
        assert_eq!(found.text, "x: 1 of 4 values, by 2.2e-16 of the largest");
        assert_eq!(change(&[1.0, 0.0, f64::NAN, 4.0]).kind, Kind::Bits);
        assert_eq!(change(&[1.0, -0.0, 0.0, 4.0]).text, "x: 1 of 4 values, by inf of the largest");
        assert_eq!(change(&[1.0]).kind, Kind::Counts);
    }

    #[test]
    fn counts_weigh_more_than_sentences_and_bits() {
        let mut other = Record::default();
        other.status("solve", -22, || "broken".to_owned());
        let found = compare(&record(), &other).expect("they differ");
        assert_eq!((found.kind, found.text.as_str()), (Kind::Counts, "solve: 0 and -22; iterations: solve there"));
        let mut other = record();
        other.0[2].1 = Answer::Words("another".to_owned());
        assert_eq!(compare(&record(), &other).expect("they differ").kind, Kind::Words);
        other.0[1].1 = Answer::Count(13);
        assert_eq!(compare(&record(), &other).expect("they differ").kind, Kind::Counts);
        let mut longer = record();
        longer.count("more", 1);
        assert_eq!(compare(&record(), &longer).expect("they differ").kind, Kind::Counts);
    }
}
