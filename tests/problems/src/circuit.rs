//! Systems of circuit simulation: sparse rows, a few long ones, and an unsymmetric matrix.

use crate::sparse::{Entry, System, summed};
use crate::two_phase::SplitMix;

/// Nodes per supply net, which every fourth of them is connected to.
const NODES_PER_NET: usize = 8000;
/// Expected number of entries per row.
const MEAN: f64 = 4.6;

/// A time step of a circuit with about this many entries. Each node is connected to an earlier node at a distance of at
/// most 40 by a conductance between 0.1 and 10, and every second node also to one at a distance of at most 1000. Every
/// fourth node is connected to the supply net of its 8000 nodes, whose row has about 2000 entries. A tenth of the nodes
/// are transistors: their current depends on the voltage of another node. Capacitances add 5 % to the diagonal, so the
/// rows are strictly diagonally dominant.
#[must_use]
pub fn circuit(entries: usize) -> System {
    let n = ((entries as f64 / MEAN) as usize).max(2);
    let mut random = SplitMix(11);
    let mut all: Vec<Entry> = Vec::with_capacity(entries + entries / 8);
    let mut sums = vec![0.0; n];
    let mut connect = |all: &mut Vec<Entry>, i: usize, j: usize, g: f64| {
        all.extend([(i, j, -g), (j, i, -g)]);
        sums[i] += g;
        sums[j] += g;
    };
    let mut controlled: Vec<Entry> = Vec::new();
    for i in 1..n {
        let earlier = |random: &mut SplitMix, most: usize| i - 1 - (random.next() % most.min(i) as u64) as usize;
        let near = earlier(&mut random, 40);
        connect(&mut all, i, near, conductance(&mut random));
        if i % 2 == 0 {
            let far = earlier(&mut random, 1000);
            connect(&mut all, i, far, conductance(&mut random));
        }
        let net = i / NODES_PER_NET * NODES_PER_NET;
        if i % 4 == 3 && i != net {
            connect(&mut all, i, net, conductance(&mut random));
        }
        if random.next().is_multiple_of(10) {
            controlled.push((i, earlier(&mut random, 40), 0.5 * random.unit()));
        }
    }
    for (i, j, gain) in controlled {
        all.push((i, j, gain));
        sums[i] += gain;
    }
    all.extend(sums.iter().enumerate().map(|(i, sum)| (i, i, 1.05 * sum)));
    System { n, entries: summed(all) }
}

/// Returns a conductance between 0.1 and 10, uniform in its logarithm.
fn conductance(random: &mut SplitMix) -> f64 {
    10.0_f64.powf(2.0 * random.unit() - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circuit_has_the_entries_that_were_requested() {
        let wanted = 100_000;
        let a = circuit(wanted);
        assert!(a.entries.len().abs_diff(wanted) < wanted / 50, "{} entries", a.entries.len());
        let (mut lengths, mut sums, mut diagonal) = (vec![0; a.n], vec![0.0; a.n], vec![0.0; a.n]);
        for &(i, j, value) in &a.entries {
            lengths[i] += 1;
            if i == j { diagonal[i] = value } else { sums[i] += value.abs() }
        }
        assert!((0..a.n).all(|i| diagonal[i] > 1.04 * sums[i]), "each row is dominant");
        let longest = *lengths.iter().max().unwrap();
        assert!((1900..2100).contains(&longest), "{longest}");
        let at = |i: usize, j: usize| a.entries.binary_search_by_key(&(i, j), |e| (e.0, e.1)).map(|k| a.entries[k].2);
        assert!(a.entries.iter().any(|&(i, j, value)| at(j, i) != Ok(value)), "unsymmetric");
    }
}
