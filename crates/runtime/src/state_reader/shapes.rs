//! What is known of a state without its job: from the manifest what its types expect, from segments what was seen.

use crate::key::Shape;
use crate::plan::StatePlan;
use crate::segment::{Declaration, StateKind};

/// Ends the word of a kind whose values are stored with the time of their last write.
const EXPIRES: &str = "-ttl";

/// Kind and shapes of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateShape {
    /// What its entries are.
    pub kind: StateKind,
    /// The word of the manifest for the kind: also says whether a value expires.
    pub word: String,
    /// Of the keys.
    pub key: Shape,
    /// Of the user keys, in a map.
    pub field: Shape,
    /// Of the values or elements, as they are stored.
    pub value: Shape,
    /// Stored values contradict the type that the job has now, or each other: their type has changed.
    pub varies: bool,
    /// What its segments saw of keys and values; `None` if none has it.
    pub seen: Option<(Shape, Shape)>,
}

impl StateShape {
    /// From what the job declared and what its segments saw, the newest first. `None` if neither says anything.
    pub(super) fn of<'a>(
        declared: Option<&StatePlan>,
        seen: impl Iterator<Item = &'a Declaration>,
    ) -> Option<StateShape> {
        let parsed = |text: &String| text.parse().unwrap_or_default();
        let (mut key, mut value) =
            declared.map_or((Shape::Unknown, Shape::Unknown), |plan| (parsed(&plan.key), parsed(&plan.value)));
        if declared.is_some_and(|plan| plan.kind.ends_with(EXPIRES)) {
            let written = ("written".to_owned(), Shape::Leaf("i64"));
            value = Shape::Struct(vec![("value".to_owned(), value), written]);
        }
        let (mut kind, mut varies) = (declared.and_then(|plan| kind_of(&plan.kind)), false);
        let mut all: Option<(Shape, Shape)> = None;
        for declaration in seen {
            let (keys, values) = all.get_or_insert_default();
            keys.merge(declaration.key_shape.clone());
            values.merge(declaration.value_shape.clone());
            kind = kind.or(Some(declaration.kind));
            // Keys cannot evolve.
            key.merge(declaration.key_shape.clone());
            match value.agrees_with(&declaration.value_shape) {
                true => value.merge(declaration.value_shape.clone()),
                false => varies = true,
            }
        }
        let kind = kind?;
        let word = declared.map_or_else(|| word_of(kind).to_owned(), |plan| plan.kind.clone());
        let (field, value) = match (kind, value) {
            (StateKind::Map | StateKind::Broadcast, Shape::Map(inner)) => *inner,
            (StateKind::List | StateKind::SplitList, Shape::Sequence(inner)) => (Shape::Unknown, *inner),
            (StateKind::Map | StateKind::Broadcast | StateKind::List | StateKind::SplitList, _) => {
                (Shape::Unknown, Shape::Unknown)
            }
            (StateKind::Value | StateKind::Timers, value) => (Shape::Unknown, value),
        };
        Some(StateShape { kind, word, key, field, value, varies, seen: all })
    }

    /// The shapes of keys and values as a segment has them.
    #[must_use]
    pub(crate) fn of_segment(&self) -> (Shape, Shape) {
        let value = match self.kind {
            StateKind::Map | StateKind::Broadcast => Shape::Map(Box::new((self.field.clone(), self.value.clone()))),
            StateKind::List | StateKind::SplitList => Shape::Sequence(Box::new(self.value.clone())),
            StateKind::Value | StateKind::Timers => self.value.clone(),
        };
        let (mut keys, mut values) = (self.key.clone(), value);
        if let Some((seen_keys, seen_values)) = self.seen.clone() {
            keys.merge(seen_keys);
            values.merge(seen_values);
        }
        (keys, values)
    }

    /// What an entry holds, for people: as the manifest writes it.
    #[must_use]
    pub fn value_text(&self) -> String {
        match self.kind {
            StateKind::Map | StateKind::Broadcast => format!("map<{},{}>", self.field, self.value),
            StateKind::List | StateKind::SplitList => format!("seq<{}>", self.value),
            StateKind::Value | StateKind::Timers => self.value.to_string(),
        }
    }
}

fn kind_of(word: &str) -> Option<StateKind> {
    match word.strip_suffix(EXPIRES).unwrap_or(word) {
        "value" | "reducing" | "aggregating" => Some(StateKind::Value),
        "map" => Some(StateKind::Map),
        "list" => Some(StateKind::List),
        "split-list" => Some(StateKind::SplitList),
        "timers" => Some(StateKind::Timers),
        "broadcast" => Some(StateKind::Broadcast),
        _ => None,
    }
}

fn word_of(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Value => "value",
        StateKind::Map => "map",
        StateKind::List => "list",
        StateKind::SplitList => "split-list",
        StateKind::Timers => "timers",
        StateKind::Broadcast => "broadcast",
    }
}
