//! Carries out what a plan breaks, and puts it right again.

use crate::{
    fleet::{Fleet, Reach},
    plan::{FaultPlan, Plan},
    store::{Cluster, Way},
    trace::{FaultKind, Trace, What},
};
use std::{sync::Arc, time::Duration};

/// Starts the faults of a plan. The returned tasks end when everything is right again.
pub(crate) fn start(
    plan: &Plan,
    trace: &Arc<Trace>,
    fleet: &Arc<Fleet>,
    cluster: &Arc<Cluster>,
) -> Vec<tokio::task::JoinHandle<()>> {
    // An operator who restarts one after the other waits for each: where all leave at once, nobody is there.
    let restarts = Arc::new(tokio::sync::Mutex::new(()));
    let one = |fault: FaultPlan| {
        let turn = (plan.is_seamless() && fault.kind == FaultKind::Drain).then(|| restarts.clone());
        let (trace, fleet, cluster) = (trace.clone(), fleet.clone(), cluster.clone());
        // A drain goes on for as long as its calls, and then half a second.
        let drain = plan.drain.as_millis() as u64 + 15_000;
        tokio::spawn(async move {
            let wait = |ms: u64| tokio::time::sleep_until(trace.origin() + Duration::from_millis(ms));
            wait(fault.at).await;
            let _turn = match &turn {
                Some(turn) => Some(turn.lock().await),
                None => None,
            };
            let late = trace.now().saturating_sub(fault.at);
            let until = fault.until + if fault.kind == FaultKind::Drain { late + drain } else { 0 };
            let of_store = matches!(fault.kind, FaultKind::Outage | FaultKind::Failover);
            let backend = (!of_store).then_some(fault.backend);
            trace.note(What::Fault { kind: fault.kind, backend, until });
            let way = if fault.silent { Way::Silent } else { Way::Cut };
            match fault.kind {
                FaultKind::Crash => {
                    fleet.kill(fault.backend);
                    wait(fault.until).await;
                    fleet.start(fault.backend);
                }
                FaultKind::Pause => {
                    fleet.sleep(fault.backend, true);
                    wait(fault.until).await;
                    fleet.sleep(fault.backend, false);
                }
                FaultKind::Drain => {
                    fleet.drain(fault.backend).await;
                    tokio::time::sleep(Duration::from_millis(fault.until - fault.at)).await;
                    fleet.start(fault.backend);
                }
                FaultKind::Partition => {
                    fleet.partition(fault.backend, Some(way));
                    wait(fault.until).await;
                    fleet.partition(fault.backend, None);
                }
                FaultKind::Unreachable => {
                    let reach = if fault.silent { Reach::Silent } else { Reach::Refused };
                    fleet.set_reach(fault.backend, reach);
                    wait(fault.until).await;
                    fleet.set_reach(fault.backend, Reach::Open);
                }
                FaultKind::Outage => {
                    fleet.store_way(way);
                    wait(fault.until).await;
                    fleet.store_way(Way::Open);
                }
                FaultKind::Failover => {
                    fleet.store_way(Way::Cut);
                    wait(fault.until).await;
                    cluster.fail_over();
                    fleet.store_way(Way::Open);
                }
            }
        })
    };
    let evict = |at: u64| {
        let (trace, cluster) = (trace.clone(), cluster.clone());
        tokio::spawn(async move {
            tokio::time::sleep_until(trace.origin() + Duration::from_millis(at)).await;
            cluster.evict();
        })
    };
    plan.faults.iter().copied().map(one).chain(plan.evictions.iter().copied().map(evict)).collect()
}
