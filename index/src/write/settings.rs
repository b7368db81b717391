//! The parts of the configuration that can be changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use dehub_store::Batch;

use super::Draft;
use crate::config::{StoredConfig, VERSION};
use crate::record::{CONFIG_KEY, META, to_json};
use crate::spaces::{Whole, numbers};
use crate::state::State;
use crate::{Durability, Name, Quantization};

impl Draft<'_> {
    /// Keeps vectors so in segments frozen after this write.
    pub(crate) fn set_quantization(&mut self, quantization: Quantization) {
        self.next.config.graph.quantization = quantization;
        self.put_config();
    }

    /// Acknowledges writes by this promise, beginning with this one.
    pub(crate) fn set_durability(&mut self, durability: Durability) {
        self.next.config.durability = durability;
        self.put_config();
    }

    /// Says that this version wrote, if another did last.
    pub(super) fn sign(&mut self) {
        if self.next.format.written_by != VERSION && self.next.role.name().is_none() {
            self.put_config();
        }
    }

    fn put_config(&mut self) {
        let spaces = numbers(&self.spaces);
        put_config(&mut self.next, spaces, &mut self.visible);
    }
}

/// Says in the points' configuration that this version wrote a space, if another wrote last.
pub(super) fn sign_for_space(whole: &mut Whole, batch: &mut Batch) {
    if whole.base.format.written_by != VERSION {
        put_config(Arc::make_mut(&mut whole.base), numbers(&whole.spaces), batch);
    }
}

fn put_config(state: &mut State, spaces: BTreeMap<Name, u16>, batch: &mut Batch) {
    let stored = StoredConfig::new(&state.config, state.identity, &state.format.made_by, spaces);
    batch.put(META, CONFIG_KEY, &to_json(&stored));
    state.format = Arc::new(stored.format());
}
