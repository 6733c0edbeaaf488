//! The claims of the paper, and ours, checked against the medians of a run.

use std::fmt;

use corelet::words::number;

use crate::args::Experiment;
use crate::cell::{Cell, Metric};
use crate::study::Study;
use crate::summary::Groups;

/// Divergences below this are equal: both are rounding.
const ROUNDING: f64 = 1e-12;
/// The smallest size from which a method is held to a claim about all sizes.
const LEAST_SIZE: usize = 10;
/// The smallest size from which pursuit is held to be the best.
const PURSUIT_SIZE: usize = 20;

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    Partly,
    Fails,
}

impl Verdict {
    fn of_share(share: f64) -> Self {
        match share {
            share if share >= 0.9 => Self::Holds,
            share if share >= 0.5 => Self::Partly,
            _ => Self::Fails,
        }
    }

    fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Partly => "partly",
            Self::Fails => "does not hold",
        })
    }
}

/// A claim and what the numbers say.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) text: String,
    pub(crate) verdict: Verdict,
    pub(crate) numbers: String,
}

impl Claim {
    fn new(text: impl Into<String>, verdict: Verdict, numbers: String) -> Self {
        Self { text: text.into(), verdict, numbers }
    }
}

/// Every claim that the cells of these studies can be held against; the theory has its own.
pub(crate) fn all(studies: &[Study]) -> Vec<Claim> {
    studies.iter().flat_map(|study| Checker::new(study).claims(studies)).collect()
}

struct Checker<'s> {
    study: &'s Study,
    groups: Groups<'s>,
    sets: Vec<&'s str>,
}

impl<'s> Checker<'s> {
    fn new(study: &'s Study) -> Self {
        let groups = study.groups();
        let sets = study.sets(&groups).iter().map(|shown| shown.set.name).collect();
        Self { study, groups, sets }
    }

    fn claims(&self, studies: &'s [Study]) -> Vec<Claim> {
        let claims = match self.study.experiment {
            Experiment::Logistic | Experiment::Poisson => self.regressions(),
            Experiment::Gaussian => self.gaussian(),
            Experiment::Rbf => self.rbf(),
            Experiment::Large => self.large(),
            Experiment::Stochastic => vec![self.stochastic()],
            Experiment::MapDistance => return map_distance(self.study, studies).into_iter().collect(),
            Experiment::Theory => Vec::new(),
        };
        claims.into_iter().flatten().collect()
    }

    fn regressions(&self) -> Vec<Option<Claim>> {
        vec![
            self.lower("a-iht", "giga", Metric::KlForward),
            self.lower("a-iht-2", "giga", Metric::KlForward),
            self.lower("a-iht", "sparse-vi", Metric::KlForward),
            self.lower("a-iht-2", "sparse-vi", Metric::KlForward),
            self.lower("a-iht-2", "sparse-vi", Metric::KlReverse),
            self.comparable_time(),
            self.far_faster(),
            self.lowest("pursuit", Metric::KlForward),
            self.lowest(self.own(), Metric::KlForward),
        ]
    }

    fn gaussian(&self) -> Vec<Option<Claim>> {
        vec![
            self.lower("a-iht", "giga", Metric::KlReverse),
            self.lower("a-iht-2", "giga", Metric::KlReverse),
            self.lower("a-iht", "sparse-vi", Metric::KlReverse),
            self.lower("a-iht-2", "sparse-vi", Metric::KlReverse),
            self.stops_improving(),
            self.surpasses("giga", [("a-iht", 30), ("a-iht-2", 30)]),
            self.surpasses("sparse-vi", [("a-iht", 100), ("a-iht-2", 50)]),
            self.lowest("pursuit", Metric::KlReverse),
            self.lowest(self.own(), Metric::KlReverse),
            self.lowest("pursuit-descent", Metric::KlReverse),
        ]
    }

    fn rbf(&self) -> Vec<Option<Claim>> {
        vec![
            self.lower("a-iht-2", "giga", Metric::KlForward),
            self.lower("a-iht-2", "giga", Metric::KlReverse),
            self.lower("a-iht-2", "sparse-vi", Metric::KlForward),
            self.lower("a-iht-2", "sparse-vi", Metric::KlReverse),
            self.drifts(),
            self.lowest("pursuit", Metric::KlForward),
            self.lowest(self.own(), Metric::KlForward),
            self.lowest("pursuit", Metric::KlReverse),
            self.lowest(self.own(), Metric::KlReverse),
            self.lower("pursuit-exact", "pursuit", Metric::KlForward),
        ]
    }

    fn large(&self) -> Vec<Option<Claim>> {
        vec![
            self.lower("a-iht-2", "giga", Metric::KlSymmetrised),
            self.growth(),
            self.crossing(),
            self.lowest("pursuit", Metric::KlSymmetrised),
            self.lowest(self.own(), Metric::KlSymmetrised),
        ]
    }

    /// `text`, prefixed by what it is about.
    fn about(&self, text: &str) -> String {
        format!("{}: {text}", self.study.settings.title)
    }

    /// The sizes from `least` on at which both methods have a median.
    fn common(&self, data: &str, a: &str, b: &str, least: usize) -> Vec<usize> {
        let theirs = self.groups.sizes(data, b);
        self.groups.sizes(data, a).into_iter().filter(|k| *k >= least && theirs.contains(k)).collect()
    }

    fn label(&self, method: &str) -> String {
        let known = self.sets.iter().flat_map(|data| self.groups.methods(data)).find(|s| s.name() == method);
        known.map_or_else(|| method.to_owned(), |series| series.label().to_owned())
    }

    /// Whether `a` has a lower metric than `b`, size by size.
    fn lower(&self, a: &str, b: &str, metric: Metric) -> Option<Claim> {
        let (mut wins, mut all, mut last) = (0, 0, Vec::new());
        for data in &self.sets {
            let sizes = self.common(data, a, b, LEAST_SIZE);
            let at = |method: &str, k: usize| self.groups.median(data, method, k, metric);
            for &k in &sizes {
                let Some((x, y)) = at(a, k).zip(at(b, k)) else { continue };
                wins += usize::from(x < y || x.max(y) < ROUNDING);
                all += 1;
            }
            if let Some((k, (x, y))) = sizes.last().and_then(|&k| Some((k, at(a, k).zip(at(b, k))?))) {
                last.push(format!("{data}, k = {k}: {} against {}", number(x), number(y)));
            }
        }
        let text =
            self.about(&format!("{} has a lower {} than {}", self.label(a), plain(metric), self.label(b)));
        let numbers = format!("{wins} of {all} sizes ≥ {LEAST_SIZE}; {}", last.join("; "));
        (all > 0).then(|| Claim::new(text, Verdict::of_share(f64::from(wins as u32) / all as f64), numbers))
    }

    /// The ratio of times of two methods at their largest common size, for each data set.
    fn time_ratios(&self, a: &str, b: &str) -> Vec<(&'s str, usize, f64)> {
        let of = |data: &&'s str| {
            let k = self.common(data, a, b, 1).last().copied()?;
            let at = |method| self.groups.median(data, method, k, Metric::SecondsPaper);
            Some((*data, k, at(a)? / at(b)?))
        };
        self.sets.iter().filter_map(of).collect()
    }

    fn comparable_time(&self) -> Option<Claim> {
        let ratios = self.time_ratios("a-iht", "giga");
        let within = ratios.iter().filter(|(_, _, ratio)| *ratio < 10.0).count();
        let text = self.about("A-IHT takes about the time of GIGA (at most ten times as long)");
        let share = within as f64 / ratios.len().max(1) as f64;
        (!ratios.is_empty()).then(|| Claim::new(text, Verdict::of_share(share), listed(&ratios)))
    }

    fn far_faster(&self) -> Option<Claim> {
        let ratios = self.time_ratios("sparse-vi", "a-iht");
        let beyond = ratios.iter().filter(|(_, _, ratio)| *ratio >= 1e4).count();
        let text = self.about("SparseVI takes 10⁴ times as long as A-IHT");
        let share = beyond as f64 / ratios.len().max(1) as f64;
        (!ratios.is_empty()).then(|| Claim::new(text, Verdict::of_share(share), listed(&ratios)))
    }

    /// Pursuit in the embedding that is not the paper's.
    fn own(&self) -> &'static str {
        let regression = self.study.plan.methods.iter().any(|series| series.name() == "pursuit-hermite");
        if regression { "pursuit-hermite" } else { "pursuit-exact" }
    }

    /// A pursuit has the lowest median of all methods but the other pursuit, at every size from 20 on.
    fn lowest(&self, ours: &str, metric: Metric) -> Option<Claim> {
        let (mut all, mut wins, mut exceptions) = (0, 0, Vec::new());
        for data in &self.sets {
            for k in self.groups.sizes(data, ours).into_iter().filter(|k| *k >= PURSUIT_SIZE) {
                let at = |method: &str| self.groups.median(data, method, k, metric);
                let Some(best) = at(ours) else { continue };
                let methods = self.groups.methods(data);
                let others = methods.iter().filter(|series| !series.name().starts_with("pursuit"));
                let rival = others
                    .filter_map(|series| Some((series.label(), at(series.name())?)))
                    .min_by(|a, b| a.1.total_cmp(&b.1));
                let Some((name, other)) = rival else { continue };
                all += 1;
                if best <= other || best.max(other) < ROUNDING {
                    wins += 1;
                } else {
                    exceptions.push(format!(
                        "{data}, k = {k}: {} against {} of {name}",
                        number(best),
                        number(other)
                    ));
                }
            }
        }
        let text = self.about(&format!(
            "{} has the lowest {} at every k ≥ {PURSUIT_SIZE}",
            self.label(ours),
            plain(metric)
        ));
        let except = if exceptions.is_empty() { "no exception".to_owned() } else { exceptions.join("; ") };
        let numbers = format!("{wins} of {all} sizes; {except}");
        // “At every k”: one exception is enough for the claim not to hold as it stands.
        let verdict = match () {
            () if wins == all => Verdict::Holds,
            () if 2 * wins >= all => Verdict::Partly,
            () => Verdict::Fails,
        };
        (all > 0).then(|| Claim::new(text, verdict, numbers))
    }

    fn stops_improving(&self) -> Option<Claim> {
        let data = self.sets.first()?;
        let sizes = self.groups.sizes(data, "sparse-vi");
        let (&last, &middle) = (sizes.last()?, sizes.get(2 * sizes.len() / 3)?);
        let at = |method, k| self.groups.median(data, method, k, Metric::KlReverse);
        let (a, b) = (at("sparse-vi", middle)?, at("sparse-vi", last)?);
        let text = self.about("SparseVI stops improving once it has some number of points");
        let numbers =
            format!("its median reverse KL is {} at k = {middle} and {} at k = {last}", number(a), number(b));
        Some(Claim::new(text, Verdict::of(b > 0.5 * a), numbers))
    }

    /// The iteration at which the residual falls below the final one of another method.
    fn surpasses(&self, other: &str, expected: [(&str, usize); 2]) -> Option<Claim> {
        let data = self.sets.first()?;
        let k = self.study.plan.keep.trace?;
        let cell = |method: &str| -> Option<&Cell> {
            self.groups.cells(data, method, k).iter().copied().find(|cell| cell.key.trial == 0)
        };
        let level = cell(other)?.quality.residual?;
        let mut found = Vec::new();
        let mut holds = true;
        for (method, within) in expected {
            let at = cell(method)?.trace.iter().position(|r| *r < level).map(|i| i + 1);
            // “About”: half as many again still counts.
            holds &= at.is_some_and(|at| at <= within + within / 2);
            let said = at.map_or_else(|| "never".to_owned(), |at| format!("after {at}"));
            found.push(format!("{} {said} (the paper: {within})", self.label(method)));
        }
        let text =
            self.about(&format!("A-IHT and A-IHT II surpass {} within few iterations", self.label(other)));
        Some(Claim::new(text, Verdict::of(holds), format!("k = {k}: {}", found.join(", "))))
    }

    /// The largest rise from a size to a later one, and where the curve ends: a rise that is made good is no drift.
    fn drifts(&self) -> Option<Claim> {
        const RISE: f64 = 1.5;
        let data = self.sets.first()?;
        let medians = self.groups.curve(data, "sparse-vi", Metric::KlForward);
        let medians: Vec<(usize, f64)> = medians.iter().map(|(k, spread)| (*k, spread.median)).collect();
        let &(last, end) = medians.last()?;
        let pairs = (0..medians.len()).flat_map(|i| (i..medians.len()).map(move |j| (i, j)));
        let rise = |&(i, j): &(usize, usize)| medians[j].1 / medians[i].1;
        let (from, to) = pairs.max_by(|a, b| rise(a).total_cmp(&rise(b)))?;
        let (low, high) = (medians[from], medians[to]);
        let verdict = match high.1 > RISE * low.1 {
            true if end > RISE * low.1 => Verdict::Holds,
            true => Verdict::Partly,
            false => Verdict::Fails,
        };
        let text = self.about("SparseVI drifts away in forward KL as the coreset grows");
        let numbers = format!(
            "its median forward KL goes from {} at k = {} to {} at k = {}, and is {} at k = {last}",
            number(low.1),
            low.0,
            number(high.1),
            high.0,
            number(end)
        );
        Some(Claim::new(text, verdict, numbers))
    }

    fn growth(&self) -> Option<Claim> {
        let mut numbers = Vec::new();
        let mut holds = true;
        for data in &self.sets {
            let sizes = self.common(data, "giga", "a-iht-2", 50);
            let (&first, &last) = (sizes.first()?, sizes.last()?);
            let ratio = |method| {
                let at = |k| self.groups.median(data, method, k, Metric::SecondsPaper);
                Some(at(last)? / at(first)?)
            };
            let (giga, iht) = (ratio("giga")?, ratio("a-iht-2")?);
            holds &= first < last && giga > 0.5 * last as f64 / first as f64 && iht < 0.5 * giga;
            let (giga, iht) = (number(giga), number(iht));
            numbers.push(format!("{data}, k = {first} → {last}: GIGA × {giga}, A-IHT II × {iht}"));
        }
        let text = self.about("the time of GIGA grows with k, that of A-IHT II hardly does");
        (!numbers.is_empty()).then(|| Claim::new(text, Verdict::of(holds), numbers.join("; ")))
    }

    fn crossing(&self) -> Option<Claim> {
        let mut numbers = Vec::new();
        let mut holds = true;
        for data in &self.sets {
            let at = |method, k| self.groups.median(data, method, k, Metric::SecondsPaper);
            let slower =
                |k: &usize| at("giga", *k).zip(at("a-iht-2", *k)).is_some_and(|(giga, iht)| giga > iht);
            let crossing = self.common(data, "giga", "a-iht-2", 1).into_iter().find(slower);
            holds &= crossing.is_some_and(|k| k <= 400);
            let said = crossing.map_or_else(|| "at no size".to_owned(), |k| format!("from k = {k} on"));
            numbers.push(format!("{data}: {said}"));
        }
        let text = self.about("GIGA is slower than A-IHT II from about k = 200 on");
        (!numbers.is_empty()).then(|| Claim::new(text, Verdict::of(holds), numbers.join("; ")))
    }

    fn stochastic(&self) -> Option<Claim> {
        let (mut close, mut numbers) = (0, Vec::new());
        for data in &self.sets {
            let Some(k) = self.common(data, "a-iht", "a-iht-batch", LEAST_SIZE).last().copied() else {
                continue;
            };
            let at = |method| self.groups.median(data, method, k, Metric::KlSymmetrised);
            let Some((batch, whole)) = at("a-iht-batch").zip(at("a-iht")) else { continue };
            close += usize::from(batch < 3.0 * whole);
            numbers.push(format!("{data}, k = {k}: {} against {}", number(batch), number(whole)));
        }
        let share = close as f64 / numbers.len().max(1) as f64;
        let text =
            self.about("with batches A-IHT is comparable to A-IHT (at most three times its symmetrised KL)");
        (!numbers.is_empty()).then(|| Claim::new(text, Verdict::of_share(share), numbers.join("; ")))
    }
}

/// Which method's MAP estimate is closest at the largest size.
fn map_distance(study: &Study, studies: &[Study]) -> Option<Claim> {
    let (mut ours, mut numbers) = (0, Vec::new());
    for other in studies.iter().filter(|other| study.settings.shows.contains(&other.experiment)) {
        let checker = Checker::new(other);
        for data in &checker.sets {
            let methods = checker.groups.methods(data);
            let of_paper = methods.iter().filter(|series| !series.name().starts_with("pursuit"));
            let k = checker.groups.sizes(data, "a-iht-2").last().copied()?;
            let at = |name: &str| checker.groups.median(data, name, k, Metric::MapDistance);
            let closest = of_paper
                .filter_map(|series| Some((series, at(series.name())?)))
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((series, distance)) = closest else { continue };
            ours += usize::from(series.name().starts_with("a-iht"));
            let pursuit = at("pursuit").map_or_else(String::new, |d| format!(", pursuit {}", number(d)));
            numbers.push(format!("{data}, k = {k}: {} {}{pursuit}", series.label(), number(distance)));
        }
    }
    let share = ours as f64 / numbers.len().max(1) as f64;
    let text = format!("{}: of the paper's methods an IHT one is usually closest", study.settings.title);
    let verdict = if share > 0.5 { Verdict::Holds } else { Verdict::of_share(share) };
    (!numbers.is_empty()).then(|| Claim::new(text, verdict, numbers.join("; ")))
}

fn listed(ratios: &[(&str, usize, f64)]) -> String {
    let one = |(data, k, ratio): &(&str, usize, f64)| format!("{data}, k = {k}: × {}", number(*ratio));
    ratios.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The name of a metric in a sentence.
fn plain(metric: Metric) -> &'static str {
    metric.label().trim_end_matches(" (nats)")
}
