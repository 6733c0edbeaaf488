//! Draws as a JSON file for ArviZ: names, chains, sample statistics, warm-up apart. `corelet.read_draws` opens it for any
//! version of ArviZ, `az.from_json` for those before 1.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use super::{Chains, Phase};

/// How often θ is written, each time on another scale.
pub struct ArvizGroup<'a> {
    /// Name of the variable.
    pub name: &'static str,
    /// From θ to what is written, of the same length.
    pub transform: &'a (dyn Fn(&[f64]) -> Vec<f64> + Sync),
}

/// Writes `posterior`, `sample_stats`, `warmup_posterior` and `warmup_sample_stats`.
///
/// Each of `groups` is one variable with the dimensions chain, draw and `parameter`, whose coordinates are `names`; the
/// statistics have the names that ArviZ's own functions look for. `attributes` go to the root.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_arviz(
    chains: &Chains,
    names: &[String],
    groups: &[ArvizGroup<'_>],
    attributes: &BTreeMap<String, String>,
    out: &mut impl Write,
) -> serde_json::Result<()> {
    let mut serializer = serde_json::Serializer::new(out);
    let mut file = (&mut serializer).serialize_map(None)?;
    file.serialize_entry("coords", &BTreeMap::from([("parameter", names)]))?;
    let dims: BTreeMap<&str, [&str; 1]> = groups.iter().map(|group| (group.name, ["parameter"])).collect();
    file.serialize_entry("dims", &dims)?;
    file.serialize_entry("attrs", attributes)?;
    let draws: Vec<&Phase> = chains.chains.iter().map(|chain| &chain.draws).collect();
    let warmup: Vec<&Phase> = chains.chains.iter().map(|chain| &chain.warmup).collect();
    for (posterior, statistics, phases) in
        [("posterior", "sample_stats", draws), ("warmup_posterior", "warmup_sample_stats", warmup)]
    {
        if phases.iter().all(|phase| phase.theta.is_empty()) {
            continue;
        }
        file.serialize_entry(posterior, &Posterior { phases: &phases, dim: chains.dim, groups })?;
        // Resampled draws have none.
        if phases.iter().any(|phase| !phase.stats.energy.is_empty()) {
            file.serialize_entry(statistics, &Statistics(&phases))?;
        }
    }
    SerializeMap::end(file)
}

struct Posterior<'a> {
    phases: &'a [&'a Phase],
    dim: usize,
    groups: &'a [ArvizGroup<'a>],
}

impl Serialize for Posterior<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.groups.len()))?;
        for group in self.groups {
            map.serialize_entry(group.name, &Variable { posterior: self, group })?;
        }
        map.end()
    }
}

/// chain × draw × parameter.
struct Variable<'a> {
    posterior: &'a Posterior<'a>,
    group: &'a ArvizGroup<'a>,
}

impl Serialize for Variable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut chains = serializer.serialize_seq(Some(self.posterior.phases.len()))?;
        for phase in self.posterior.phases {
            let draws = phase.theta.chunks_exact(self.posterior.dim.max(1));
            chains.serialize_element(&draws.map(self.group.transform).collect::<Vec<Vec<f64>>>())?;
        }
        chains.end()
    }
}

struct Statistics<'a>(&'a [&'a Phase]);

impl Serialize for Statistics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn of<'a, T>(phases: &[&'a Phase], get: fn(&'a Phase) -> &'a Vec<T>) -> Vec<&'a Vec<T>> {
            phases.iter().map(|phase| get(phase)).collect()
        }
        let phases = self.0;
        let mut map = serializer.serialize_map(Some(8))?;
        map.serialize_entry("lp", &of(phases, |p| &p.stats.log_posterior))?;
        map.serialize_entry("energy", &of(phases, |p| &p.stats.energy))?;
        map.serialize_entry("acceptance_rate", &of(phases, |p| &p.stats.acceptance))?;
        map.serialize_entry("step_size", &of(phases, |p| &p.stats.step_size))?;
        map.serialize_entry("tree_depth", &of(phases, |p| &p.stats.depth))?;
        map.serialize_entry("n_steps", &of(phases, |p| &p.stats.steps))?;
        map.serialize_entry("diverging", &of(phases, |p| &p.stats.diverging))?;
        map.serialize_entry("reached_max_treedepth", &of(phases, |p| &p.stats.max_depth_reached))?;
        map.end()
    }
}
