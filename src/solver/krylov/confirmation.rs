//! Confirmation: what the recurred residual says of convergence is looked at on b - A x, from which it may have drifted
//! away.

use super::state::Test;
use crate::backend::steps::pcg::{LoopEnding, PcgSteps};
use crate::options::Norm;
use crate::report::StopReason;

/// The tested norm and the reason with which a loop that ended so ends the solve; none where a start from a recomputed
/// residual is to tell. A stop beside a met test counts if the caller finds that missed.
pub(super) fn confirm<S: PcgSteps + ?Sized>(
    s: &mut S,
    test: &Test,
    ending: LoopEnding,
    recurred: f64,
    stopped: bool,
) -> Option<(f64, StopReason)> {
    let reason = match ending {
        LoopEnding::Cut => StopReason::MaxIter,
        LoopEnding::Met if !test.confirms => StopReason::Converged,
        _ => return None,
    };
    let norm = if test.confirms { recomputed(s, test) } else { recurred };
    Some((norm, if stopped { StopReason::Monitor } else { reason }))
}

/// The tested norm of b - A x.
fn recomputed<S: PcgSteps + ?Sized>(s: &mut S, test: &Test) -> f64 {
    let norm2 = s.residual();
    if test.norm == Norm::True2 {
        return norm2.sqrt();
    }
    s.descend(None);
    s.preconditioned_square().abs().sqrt()
}
