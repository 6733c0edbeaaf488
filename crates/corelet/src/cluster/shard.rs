//! One partition's rows, where they are, answering questions that come as bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::wire::{Fault, Look, Made, NameBlock, Plan, Question, Reply, fingerprint, pack, unpack};
use crate::data::{DataError, NamedGroups, PartRows, Source, Twofold};
use crate::embed::Recipe;
use crate::model::{BuiltIn, Numbers};
use crate::review::{Apart, Part, Question as Review, Unusable};
use crate::rows::{
    At, Distinct, Grouped, GroupsAtHand, Memory, Observations, Rows, RowsError, Totals, Under,
};

/// What a partition as it came answers; its name is what errors call it.
pub fn look(partition: &Source<'_>, question: &[u8]) -> Vec<u8> {
    let said = |error: DataError| Fault::Said(error.to_string());
    match unpack(question) {
        Ok(Look::Survey(columns)) => reply(0, partition.survey(&columns).map_err(said)),
        Ok(Look::Gram(encoding)) => {
            let made = partition.encode(&encoding).map(|rows| Made { gram: rows.gram, ..Made::default() });
            reply(0, made.map_err(said))
        }
        Err(reason) => reply::<()>(0, Err(Fault::Said(format!("{}: {reason}", partition.name())))),
    }
}

/// The rows of one partition. What went wrong when it was made is what it answers every question with.
pub struct Shard(Result<Held, Fault>);

struct Held {
    rows: Memory,
    likelihood: (BuiltIn, Numbers),
    first: usize,
    made: Made,
    /// Fingerprint of the rows and their groups.
    fingerprint: u64,
    /// The latest, so that what its embedding knows of each row is kept.
    recipe: Mutex<Option<Arc<Recipe>>>,
}

impl Shard {
    /// Makes the rows of a partition by the driver's plan. The name of `source` is what errors call the partition.
    pub fn new(source: &Source<'_>, partition: usize, plan: &[u8]) -> Self {
        Self(Held::new(source, partition, plan).map_err(Fault::Said))
    }

    /// What the driver wants to know once it is made.
    pub fn made(&self) -> Vec<u8> {
        self.replied(|held| Ok(&held.made))
    }

    /// The answer to a question.
    pub fn answer(&self, question: &[u8]) -> Vec<u8> {
        match unpack(question) {
            Ok(question) => self.answered(question),
            Err(reason) => reply::<()>(0, Err(Fault::Said(reason))),
        }
    }

    /// All of it, for an engine that moves it to another machine, or to disk.
    pub fn to_bytes(&self) -> Vec<u8> {
        pack(&self.0.as_ref().map(Held::packed).map_err(Clone::clone))
    }

    /// What [`to_bytes`](Self::to_bytes) gave.
    ///
    /// # Errors
    /// Bytes of another version, or of something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let packed: Result<Packed<'_>, Fault> = unpack(bytes)?;
        Ok(Self(packed.and_then(|packed| packed.held().map_err(Fault::Said))))
    }

    /// Bytes that its rows take.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(0, |held| held.rows.model().observations().bytes() as usize)
    }

    fn answered(&self, question: Question) -> Vec<u8> {
        match question {
            Question::Moments => self.replied(|held| held.rows.moments()),
            Question::Newton { theta, derivatives } => {
                self.replied(|held| held.rows.newton(&At { theta: &theta, derivatives }))
            }
            Question::Scores { theta, dim } => {
                let draws: Vec<&[f64]> = theta.chunks_exact(dim.max(1)).collect();
                self.replied(|held| held.rows.scores(&draws))
            }
            Question::Expect { mean, factor } => {
                self.replied(|held| held.rows.expect(&Under { mean: &mean, factor: &factor }))
            }
            Question::Gather(mut gather) => self.replied(|held| {
                held.keep(&mut gather.recipe);
                held.rows.gather(&gather)
            }),
            Question::Top(mut top) => self.replied(|held| {
                held.keep(&mut top.recipe);
                held.rows.top(&top)
            }),
            Question::Totals { anchor, shifts, wide } => {
                self.replied(|held| held.rows.totals(&Totals { anchor: &anchor, shifts: &shifts, wide }))
            }
            Question::Fetch(mut ids) => self.replied(|held| {
                ids.retain(|id| (held.first..held.first + held.rows.len()).contains(id));
                held.rows.fetch(&ids)
            }),
            Question::Distinct { room } => self.replied(|held| held.distinct(room)),
            Question::Groups { recipe, block } => self.replied(|held| held.sums(&recipe, block)),
            Question::Members(names) => self.replied(|held| held.members(&names)),
            Question::Review(review) => match &self.0 {
                Ok(held) => reply(held.fingerprint, held.review(&review).map_err(Fault::from)),
                Err(fault) => reply::<()>(0, Err(fault.clone())),
            },
        }
    }

    fn replied<'a, A: Serialize>(&'a self, answer: impl FnOnce(&'a Held) -> Result<A, RowsError>) -> Vec<u8> {
        match &self.0 {
            Ok(held) => reply(held.fingerprint, answer(held).map_err(Fault::from)),
            Err(fault) => reply::<()>(0, Err(fault.clone())),
        }
    }
}

/// A shard on its way.
#[derive(Serialize, Deserialize)]
struct Packed<'a> {
    observations: Cow<'a, Observations>,
    model: BuiltIn,
    numbers: Numbers,
    first: usize,
    gram: Cow<'a, [f64]>,
    groups: Option<NamedGroups>,
}

impl Packed<'_> {
    fn held(self) -> Result<Held, String> {
        let Self { observations, model, numbers, first, gram, groups } = self;
        let (observations, gram) = (observations.into_owned(), gram.into_owned());
        let of_rows = observations.fingerprint_sum(first);
        let fingerprint = of_rows.wrapping_add(groups.as_ref().map_or(0, fingerprint));
        let (groups, names) = groups.map(|named| (named.groups, named.names)).unzip();
        let bound = model.bind(observations, numbers).map_err(|error| error.to_string())?;
        let (rows, recipe) = (Memory::part(bound, first).with_groups(groups), Mutex::default());
        let made = Made { gram, fingerprint: of_rows, groups: names.unwrap_or_default() };
        Ok(Held { rows, likelihood: (model, numbers), first, made, fingerprint, recipe })
    }
}

impl Held {
    fn packed(&self) -> Packed<'_> {
        Packed {
            observations: Cow::Borrowed(self.rows.model().observations()),
            model: self.likelihood.0,
            numbers: self.likelihood.1,
            first: self.first,
            gram: Cow::Borrowed(&self.made.gram),
            groups: self.rows.groups_at_hand().map(|groups| NamedGroups {
                groups: groups.groups().clone(),
                names: self.made.groups.clone(),
            }),
        }
    }

    fn new(source: &Source<'_>, partition: usize, plan: &[u8]) -> Result<Self, String> {
        let named = |reason: String| format!("{}: {reason}", source.name());
        let plan: Plan = unpack(plan).map_err(named)?;
        let made = source.encode(&plan.encoding).map_err(|error| error.to_string())?;
        let PartRows { observations, gram, groups } = made;
        let bounds = (plan.starts.get(partition), plan.starts.get(partition + 1));
        let (Some(&first), Some(&end)) = bounds else {
            return Err(named("it is not in the plan".to_owned()));
        };
        if observations.len() != end - first {
            let (now, then) = (observations.len(), end - first);
            return Err(named(format!(
                "it has {now} usable rows, and had {then} when it was first looked at"
            )));
        }
        let (observations, gram) = (Cow::Owned(observations), Cow::Owned(gram));
        let made = Packed { observations, model: plan.model, numbers: plan.numbers, first, gram, groups };
        made.held().map_err(named)
    }

    /// The distinct rows, which must fit in so many bytes.
    fn distinct(&self, room: u64) -> Result<Distinct, RowsError> {
        let distinct = Distinct::of(self.rows.model().observations(), self.first);
        if distinct.bytes() > room {
            let (rows, needed) = (distinct.len(), distinct.bytes());
            return Err(RowsError::Memory { rows, needed, available: room });
        }
        Ok(distinct)
    }

    /// Σφᵢ over the rows of each group whose name is in the block.
    fn sums(&self, recipe: &Recipe, block: NameBlock) -> Result<Vec<Twofold>, RowsError> {
        let named = self.made.groups.iter().enumerate();
        let groups: Vec<usize> = named.filter(|(_, name)| block.has(name)).map(|(group, _)| group).collect();
        self.groups()?.sums(recipe, &groups)
    }

    /// The rows of the groups of these names, none of one that is elsewhere.
    fn members(&self, names: &[String]) -> Result<Vec<Vec<usize>>, RowsError> {
        let numbers: HashMap<&str, usize> =
            (0..).zip(&self.made.groups).map(|(at, name)| (name.as_str(), at)).collect();
        let groups = self.groups()?;
        let members = |name: &String| match numbers.get(name.as_str()) {
            Some(&group) => groups.members(&[group]).map(|mut members| members.pop().unwrap_or_default()),
            None => Ok(Vec::new()),
        };
        names.iter().map(members).collect()
    }

    /// What its rows say of draws, with its own numbers of groups.
    fn review(&self, question: &Review) -> Result<Part, Unusable> {
        let model = self.rows.model();
        let groups = self.rows.groups_at_hand().map(GroupsAtHand::groups);
        let codes = groups.map(|groups| {
            let mut codes = vec![0; model.len()];
            for group in 0..groups.len() {
                groups.members(group).iter().for_each(|&row| codes[row] = group);
            }
            codes
        });
        let mut part = question.nothing(groups.map(|groups| groups.len()));
        let apart = Apart { clusters: codes.as_deref(), by: None };
        question.add(model, self.first, apart, &mut part)?;
        Ok(part)
    }

    fn groups(&self) -> Result<&GroupsAtHand, RowsError> {
        self.rows.groups_at_hand().ok_or_else(|| RowsError::Place {
            place: "the shard".to_owned(),
            reason: "it was not told which rows belong together".to_owned(),
        })
    }

    /// Puts the recipe that is kept in the place of an equal one, or keeps this one.
    fn keep(&self, recipe: &mut Arc<Recipe>) {
        let mut kept = self.recipe.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(known) if **known == **recipe => *recipe = Arc::clone(known),
            _ => *kept = Some(Arc::clone(recipe)),
        }
    }
}

fn reply<A: Serialize>(fingerprint: u64, answer: Result<A, Fault>) -> Vec<u8> {
    pack(&Reply { fingerprint, answer })
}
