//! A collection from outside: what is written is there, what is asked is answered right.

mod alarms;
mod background;
mod catalogue;
mod choices;
mod code_scanning;
mod crashing;
mod damage;
mod dual_balance;
mod dump;
mod filters;
mod forgetting;
mod graph_file;
mod growing;
mod guards;
mod live;
mod made;
mod model;
mod quarantine;
mod reference;
mod refusing;
mod reopening;
mod scanning;
mod scored;
mod segments;
mod walking;
mod wordnet;
