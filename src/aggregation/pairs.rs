//! Pairwise matching of strongly coupled rows (Napov and Notay 2012).

use super::quality::pair_quality;
use crate::direct::couplings::{ALLOCATION_NAME, Couplings, UNASSIGNED};
use crate::error::{Result, push};

/// Pairs the free rows, which have the value `UNASSIGNED` in `partner`. The entries of all other rows do not change.
/// Processes the free rows i in ascending order. The candidates for a pair with i are the free rows j with a_ij > 0 and
/// mu(i, j) <= kappa (`quality::pair_quality`); a_ij is the negative of the off-diagonal entry of the matrix. The
/// partner of i is the candidate with the smallest mu for which `is_suitable_pair` holds. If there is none, row i
/// becomes its own partner.
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
