use crate::{Kit, harness::INCARNATION};
use bowline_store::Attachment;

pub(super) async fn attachments_are_counted(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a"]).await?;
    let page = value!(kit.read(id, 0).await, "reading before anybody attached");
    expect_eq!(page.generation, 0, "the generation then");
    for generation in 1..=3 {
        let attachment = value!(kit.store.attach(id).await, "attaching");
        expect_eq!(
            attachment,
            Attachment { generation, delivered: 0, incarnation: INCARNATION },
            "the attachment"
        );
        let page = value!(kit.read(id, 0).await, "reading");
        expect_eq!(page.generation, generation, "the generation that a reader sees");
    }
    Ok(())
}

pub(super) async fn a_delivery_is_reported_to_the_next_reader(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a", "b", "c"]).await?;
    let first = value!(kit.store.attach(id).await, "attaching");
    kit.store.delivered(id, first.generation, 2);
    for _ in 0..10 {
        kit.clock.settle().await;
    }
    let second = value!(kit.store.attach(id).await, "attaching again");
    expect_eq!((second.generation, second.delivered), (2, 2), "the second attachment");
    // What is reported late and out of order takes nothing back.
    kit.store.delivered(id, second.generation, 3);
    kit.store.delivered(id, second.generation, 1);
    for _ in 0..10 {
        kit.clock.settle().await;
    }
    let third = value!(kit.store.attach(id).await, "attaching once more");
    expect_eq!((third.generation, third.delivered), (3, 3), "the third attachment");
    Ok(())
}

pub(super) async fn an_older_reader_delivers_nothing(kit: &Kit<'_>) -> Result<(), String> {
    let id = kit.call_with(&["a", "b", "c"]).await?;
    let older = value!(kit.store.attach(id).await, "attaching");
    value!(kit.store.attach(id).await, "a newer reader");
    kit.store.delivered(id, older.generation, 3);
    for _ in 0..10 {
        kit.clock.settle().await;
    }
    let newest = value!(kit.store.attach(id).await, "attaching again");
    expect_eq!(newest.delivered, 0, "what a displaced reader reported");
    Ok(())
}
