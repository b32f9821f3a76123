//! The core over the store in memory: what needs no sockets to be seen.

#![expect(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

mod aged;
mod approle;
mod audit;
mod batch;
mod budget;
mod certificates;
mod clocks;
mod fast_path;
mod figures;
mod freshness;
mod full;
mod github;
mod identity;
mod identity_aliases;
mod identity_asks;
mod identity_limits;
mod jobs;
mod key_server;
mod kv_many;
mod kv_upgrade;
mod leases;
mod logins;
mod member_site;
mod members;
mod members_seen;
mod met;
mod monitor;
mod namespaces_by_label;
mod page;
mod pod;
mod policies;
mod policy_questions;
mod renewals;
mod sealing;
mod snapshots;
mod support;
mod sys_limits;
mod sys_rules;
mod token_children;
mod token_rules;
mod tokens;
mod transit;
mod versions;
mod wrapping;
