//! Pairwise matching of strongly coupled rows (Napov and Notay 2012).

use super::quality::pair_quality;
use crate::direct::couplings::{ALLOCATION_NAME, Couplings, UNASSIGNED};
use crate::error::{Result, push};

/// Pairs rows. Each free row i, in ascending order, gets a free row j with a_ij > 0 and mu(i, j) <= kappa for which
/// `is_suitable_pair(i, j)` holds; of these rows, the one with the smallest mu (`quality::pair_quality`). Free rows are
/// those with the value `UNASSIGNED` in `partner`. If there is no such row j, row i becomes its own partner. The
/// entries of rows that are not free do not change.
pub fn match_pairs(
    c: &Couplings,
    kappa: f64,
    is_suitable_pair: impl Fn(usize, usize) -> bool,
    partner: &mut [u32],
) -> Result<()> {
    let mut candidates = Vec::new();
    for i in 0..c.rows() {
        if partner[i] != UNASSIGNED {
            continue;
        }
        candidates.clear();
        for (j, a) in c.row(i).filter(|&(j, a)| partner[j] == UNASSIGNED && a > 0.0) {
            let mu = pair_quality(c, i, j, a);
            if mu <= kappa {
                push(&mut candidates, (mu, j), ALLOCATION_NAME)?;
            }
        }
        candidates.sort_unstable_by(|(mu, j), (nu, k)| mu.total_cmp(nu).then(j.cmp(k)));
        let partner_row = candidates.iter().find(|&&(_, j)| is_suitable_pair(i, j)).map_or(i, |&(_, j)| j);
        (partner[i], partner[partner_row]) = (partner_row as u32, i as u32);
    }
    Ok(())
}
