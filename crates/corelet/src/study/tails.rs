//! Tails: draws that do not have the mass far out, under priors or likelihoods that are not log-concave, are not certified.

use super::{Study, StudyError};
use crate::model::Shifts;
use crate::posterior::{Chains, Gaussian, Laplace, Missed, Modes, Tail, tails};
use crate::rows::{At, LogLikelihood, Rows, Totals, Weighted};
use crate::trust::Reason;
use crate::trust::policy::MISSED_TAIL;
use crate::words::missed_tail;

impl Study {
    /// Where chains of weighted rows lack the mass of a tail, in words: as all rows have it, which no draw of theirs would show, or as the
    /// weighted rows alone have it. Modes are those of the weighted rows.
    pub(super) fn missed_tails(
        &self,
        coreset: &Weighted,
        modes: Option<&Modes>,
        chains: &Chains,
    ) -> Result<Vec<(Reason, String)>, StudyError> {
        let Some(modes) = modes else { return Ok(Vec::new()) };
        let matter = modes.with_share(MISSED_TAIL);
        let modes: Vec<&Laplace> = matter.all().iter().map(|mode| &mode.fit).collect();
        let found = tails(coreset, &self.prior, &modes)?;
        let missed = |tail: &Tail| tail.against(chains).filter(|missed| missed.distance() > MISSED_TAIL);
        let mut all = Vec::new();
        for tail in &found {
            let of_all = tail.reweighted(&self.beyond(coreset, tail, &modes[0].posterior)?);
            let of_all = missed(&of_all).map(|missed| (Reason::Tail, missed));
            let one = of_all.or_else(|| missed(tail).map(|missed| (Reason::OwnTail, missed)));
            all.extend(one.map(|(reason, missed)| (reason, self.worded(tail, reason, &missed))));
        }
        Ok(all)
    }

    /// The log-likelihood of all rows less that of the weighted ones along the path of a tail, up to a constant.
    fn beyond(&self, coreset: &Weighted, tail: &Tail, from: &Gaussian) -> Result<Vec<f64>, StudyError> {
        let anchor = &from.mean;
        let path = tail.path().iter().flat_map(|theta| theta.iter().zip(anchor).map(|(x, a)| x - a));
        let shifts = Shifts::new(path.collect(), anchor.len());
        let all = self.rows.totals(&Totals::new(anchor, &shifts, self.rows.len()))?;
        let here = coreset.evaluate(&At { theta: anchor, derivatives: 0 })?.value;
        let less = |(all, theta): (&f64, &Vec<f64>)| {
            let there = coreset.evaluate(&At { theta, derivatives: 0 })?.value;
            Ok(all - (there - here))
        };
        all.iter().zip(tail.path()).map(less).collect()
    }

    fn worded(&self, tail: &Tail, reason: Reason, missed: &Missed) -> String {
        let value = self.to_original(&tail.path()[missed.step])[missed.at];
        let (own, shares) = (reason == Reason::OwnTail, (missed.mass, missed.draws));
        missed_tail(&self.frame.names[missed.at], own, missed.above, value, shares)
    }
}
