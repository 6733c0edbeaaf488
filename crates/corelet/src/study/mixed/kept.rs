//! The coreset of a mixed model by itself: its groups, weights and priors, of which the posterior is sampled without the data.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::factors::{Assigned, groups_of};
use super::{Factors, MixedFit, MixedPosterior, MixedStudy, StudyError};
use crate::data::{
    Besides, CoresetFile, DataError, Encoding, NamedGroups, Source, Standardisation, TextLevels, Unseen,
    read_group_coreset,
};
use crate::engine::{Interrupted, Sample, Target, Wanted};
use crate::mixed::{EffectScale, GroupTarget, KeptPrior, MixedModel, MixedPrior, SdPrior};
use crate::model::mixed::{Mixed, Nodes};
use crate::posterior::{Chains, SampleError, SampleProgress, SampleSettings};
use crate::rows::Observations;
use crate::study::frame::{ENCODING, MODEL};
use crate::study::{Listener, Progress, Resolved};
use crate::words::count;

/// Under these names a coreset's metadata have the levels of text, the scale, and the random effects.
const LEVELS: &str = "corelet.levels";
const STANDARDISATION: &str = "corelet.standardisation";
const MIXED: &str = "corelet.mixed";

/// What a coreset of groups says of its random effects.
#[derive(Serialize, Deserialize)]
struct Note {
    factors: Factors,
    scale: EffectScale,
    sd_priors: Vec<SdPrior>,
    lkj: Option<f64>,
    kept_priors: Vec<SdPrior>,
    powers: Vec<Vec<f64>>,
    nodes: usize,
    /// Where chains start.
    start: Vec<f64>,
}

/// What the file of such a coreset holds.
pub struct KeptMixed {
    /// The likelihood of a row, with the priors of its parameters.
    pub resolved: Resolved,
    /// How cells become numbers.
    pub encoding: Encoding,
    levels: Vec<TextLevels>,
    standardisation: Standardisation,
    factors: Factors,
    powers: Vec<Vec<f64>>,
    scale: EffectScale,
    chosen: KnownGroups,
    prior: MixedPrior,
    weights: Vec<f64>,
    nodes: usize,
    start: Vec<f64>,
}

/// Groups with their rows.
pub struct KnownGroups {
    mixed: Mixed,
    labels: HashMap<String, usize>,
}

impl MixedStudy {
    /// What goes with the rows of the chosen groups so that new rows can be predicted from them.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn notes(&self, fit: &MixedFit) -> serde_json::Result<BTreeMap<String, String>> {
        let prior = &self.model.prior;
        let note = Note {
            factors: self.factors.clone(),
            scale: self.scale.clone(),
            sd_priors: prior.sds.clone(),
            lkj: prior.lkj,
            kept_priors: prior.kept.iter().map(|kept| kept.sd).collect(),
            powers: prior.kept.iter().map(|kept| kept.powers.clone()).collect(),
            nodes: self.model.nodes.per_effect,
            start: fit.sample.draws.mean(),
        };
        let frame = &self.frame;
        let said = [
            (ENCODING, serde_json::to_string(&frame.encoding)?),
            (LEVELS, serde_json::to_string(&frame.levels)?),
            (STANDARDISATION, serde_json::to_string(&frame.standardisation)?),
            (MODEL, serde_json::to_string(&self.resolved)?),
            (MIXED, serde_json::to_string(&note)?),
        ];
        Ok(said.into_iter().map(|(key, text)| (key.to_owned(), text)).collect())
    }
}

fn note<T: DeserializeOwned>(file: &CoresetFile, name: &str, key: &str) -> Result<T, StudyError> {
    let refused = |reason: String| StudyError::NotKept { file: name.to_owned(), reason };
    let text = file.notes.get(key).ok_or_else(|| refused(format!("it does not say {key}")))?;
    serde_json::from_str(text)
        .map_err(|error| refused(format!("what it says under {key} cannot be read: {error}")))
}

impl KeptMixed {
    /// Reads a coreset of groups, Parquet or JSON; none if the file is a coreset of rows.
    ///
    /// # Errors
    /// Names the file, and what it does not say.
    pub fn read(path: &Path) -> Result<Option<Self>, StudyError> {
        let Some(file) = read_group_coreset(path, MIXED)? else { return Ok(None) };
        let name = path.display().to_string();
        let refused = |reason: String| StudyError::NotKept { file: name.clone(), reason };
        let said: Note = note(&file, &name, MIXED)?;
        let mut kept = Self {
            resolved: note(&file, &name, MODEL)?,
            encoding: note(&file, &name, ENCODING)?,
            levels: note(&file, &name, LEVELS)?,
            standardisation: note(&file, &name, STANDARDISATION)?,
            factors: said.factors,
            chosen: KnownGroups::empty(),
            prior: MixedPrior {
                fixed: crate::posterior::Prior::isotropic(1, 1.0)?,
                sds: Vec::new(),
                lkj: None,
                kept: Vec::new(),
            },
            scale: said.scale,
            powers: said.powers,
            weights: Vec::new(),
            nodes: said.nodes,
            start: said.start,
        };
        let source = file.source(&kept.encoding)?;
        let (chosen, order, starts) = kept.known_in(&source)?;
        let powers = kept.powers.iter().zip(said.kept_priors);
        kept.prior = MixedPrior {
            fixed: kept.resolved.prior()?,
            sds: said.sd_priors,
            lkj: said.lkj,
            kept: powers.map(|(powers, sd)| KeptPrior { sd, powers: powers.clone() }).collect(),
        };
        if kept.prior.dim() != chosen.mixed.dim() || kept.start.len() != chosen.mixed.dim() {
            return Err(refused("its priors are not those of its model".to_owned()));
        }
        // A weight is that of the group, the same in all of its rows.
        for bounds in starts.windows(2) {
            let own = &order[bounds[0]..bounds[1]];
            if let Some(&row) = own.iter().find(|&&row| file.weights[row] != file.weights[own[0]]) {
                return Err(refused(format!(
                    "row {} has another group_weight than its group",
                    file.rows[row]
                )));
            }
            kept.weights.push(file.weights[own[0]]);
        }
        kept.chosen = chosen;
        Ok(Some(kept))
    }

    /// The groups in other rows, with their targets: those of the data that the model was fitted to.
    ///
    /// # Errors
    /// Names the column, and the row where a single one is at fault.
    pub fn known(&self, source: &Source<'_>) -> Result<KnownGroups, StudyError> {
        Ok(self.known_in(source)?.0)
    }

    fn known_in(&self, source: &Source<'_>) -> Result<(KnownGroups, Vec<usize>, Vec<usize>), StudyError> {
        let encoded = self.encoding.encode_groups(
            source,
            Besides::Target,
            Unseen::Error,
            &self.levels,
            &self.standardisation,
        )?;
        let (rows, named, _) = encoded;
        let assigned = self.assigned(&named)?;
        let NamedGroups { groups, names } = assigned.groups;
        let (order, starts) = groups.into_order();
        let model = self.resolved.bind(rows.select(&order))?;
        let mut mixed = Mixed::new(&*model, self.scale.effects.clone(), starts.clone())?
            .with_kept(assigned.factors.levels_in(&order, &assigned.levels));
        for (kept, powers) in mixed.kept_mut().iter_mut().zip(&self.powers) {
            kept.powers.clone_from(powers);
        }
        let labels = names.into_iter().zip(0..).collect();
        Ok((KnownGroups { mixed, labels }, order, starts))
    }

    /// Groups and levels by the factors of the fit.
    fn assigned(&self, named: &[NamedGroups]) -> Result<Assigned, StudyError> {
        let columns = self.encoding.factors();
        let unread = || StudyError::Random("the rows do not say their groups".to_owned());
        let groups = groups_of(&self.factors.integrated, columns, named).ok_or_else(unread)?;
        let mut levels = Vec::new();
        for factor in &self.factors.kept {
            let found = groups_of(&factor.effects, columns, named).ok_or_else(unread)?;
            let known: HashMap<&String, u32> = factor.labels.iter().zip(0..).collect();
            let of = |name: &String| {
                known.get(name).copied().ok_or_else(|| {
                    StudyError::Random(format!(
                        "'{name}' in '{}' is none of the {} levels that the model was fitted to",
                        factor.effects.group,
                        count(known.len())
                    ))
                })
            };
            let numbers = found.names.iter().map(of).collect::<Result<Vec<u32>, _>>()?;
            levels.push(found.groups.codes().into_iter().map(|code| numbers[code as usize]).collect());
        }
        Ok(Assigned { factors: self.factors.clone(), groups, levels })
    }

    /// Draws of the posterior of the chosen groups.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn sample(
        &mut self,
        settings: &SampleSettings,
        seed: u64,
        listener: &mut Listener<'_>,
    ) -> Result<(Sample, Option<Chains>), StudyError> {
        settings.check()?;
        let mixed = std::mem::replace(&mut self.chosen.mixed, KnownGroups::empty().mixed);
        let nodes = Nodes::new(self.nodes, mixed.effects().len());
        let model = MixedModel { mixed, nodes, prior: self.prior.clone() };
        let mut heard =
            |progress: &SampleProgress| -> ControlFlow<()> { listener(Progress::Sampling(progress)) };
        let target = GroupTarget::new(&model, *settings, seed, self.start.clone(), &mut heard);
        let groups: Vec<usize> = (0..self.weights.len()).collect();
        let sample = target.sample(&groups, &self.weights, None, Wanted::Final { draws: 0 });
        let chains = target.last_chains();
        drop(target);
        self.chosen.mixed = model.mixed;
        match sample {
            Ok(sample) => Ok((sample, chains)),
            Err(error) if error.is::<Interrupted>() => Err(SampleError::Stopped.into()),
            Err(error) => Err(StudyError::Fit(error)),
        }
    }

    /// What predictions are made with: draws, and the groups whose rows are known, by default those of the coreset alone.
    pub fn posterior<'a>(&'a self, sample: &Sample, known: Option<&'a KnownGroups>) -> MixedPosterior<'a> {
        let has_data = known.is_some();
        let known = known.unwrap_or(&self.chosen);
        let parts = (&self.resolved, &self.factors, &known.mixed);
        MixedPosterior::new(parts, (self.nodes, has_data), known.labels.clone(), sample)
    }

    /// Other rows, encoded as its own, with their groups where they are `grouped`; and what was made of unseen levels, a line each.
    ///
    /// # Errors
    /// Names the column, and the row where a single one is at fault.
    pub fn encode_noting(
        &self,
        source: &Source<'_>,
        grouped: bool,
        unseen: Unseen,
    ) -> Result<(Observations, Vec<NamedGroups>, Vec<String>), DataError> {
        let (besides, levels, scale) = (Besides::Exposure, &self.levels, &self.standardisation);
        if grouped {
            return self.encoding.encode_groups(source, besides, unseen, levels, scale);
        }
        let (rows, notes) = self.encoding.encode_noting(source, besides, unseen, levels, scale)?;
        Ok((rows, Vec::new(), notes))
    }
}

impl KnownGroups {
    fn empty() -> Self {
        Self { mixed: Mixed::empty(), labels: HashMap::new() }
    }
}
