//! What must hold in every world.

use super::client::State;
use super::world::{Knobs, LOST, RESPONSE, World};

/// Runs a world and checks what must hold in every one.
pub(super) fn check(knobs: &Knobs) -> World {
    let mut world = World::new(knobs.clone());
    world.run();
    let log: Vec<String> =
        world.log.events.iter().map(|event| String::from_utf8(event.to_vec()).unwrap()).collect();
    let client = &world.client;
    let is_response = |text: &&String| *text == RESPONSE || *text == LOST;

    assert_eq!(client.received, client.delivered, "the client half lost or made up something");
    if let State::Failed(error) = &client.state {
        // Cut off before the first id, a client has nothing to come back with.
        assert!(client.ids.is_empty() && error.may_have_run, "{error}");
        assert!(client.received.is_empty(), "a message without an id");
        return world;
    }
    assert!(world.log.sealed);
    assert_eq!(client.received, log, "each event of the log once and in order");
    assert_eq!(log.iter().filter(is_response).count(), 1);
    assert!(log.last().is_some_and(|last| is_response(&last)), "the response comes last");

    let kept: Vec<&String> = log.iter().filter(|text| text.contains("\"id\":\"s")).collect();
    if log.last().is_some_and(|last| last == RESPONSE) {
        assert_eq!(kept, world.kept.iter().collect::<Vec<_>>(), "a request of ours was dropped");
        let droppable = log.len() as u64 - 1 - kept.len() as u64;
        let writer = world.first_writer();
        assert_eq!(droppable + writer.dropped() + writer.coalesced(), world.droppable_said);
    } else {
        assert!(knobs.take_over_at.is_some());
        assert!(world.kept.iter().collect::<Vec<_>>().starts_with(&kept));
    }

    let in_minute =
        |from: &_| client.requests.iter().filter(|at| *at >= from && at.since(*from) < 60_000).count();
    let busiest = client.requests.iter().map(in_minute).max().unwrap_or(0);
    if knobs.primed && knobs.cuts.is_empty() {
        assert!(busiest <= 31, "{busiest} requests in a minute");
    }
    assert!(busiest <= 31 + knobs.cuts.len(), "{busiest} requests in a minute");
    if !knobs.primed {
        assert_eq!(client.empty_events, 0, "an event without data for a client that would parse it");
    }
    world
}
