//! Stores: the same contract for a folder and for an object store.

use crate::crashes::Folder;
use whimbrel_jobs::store::{Access, FolderStore, ObjectsStore, StateStore};

fn check(store: &dyn StateStore) {
    assert!(store.list("tape").unwrap().is_empty());
    assert!(store.create("tape/1", b"mine".to_vec()).unwrap());
    assert!(!store.create("tape/1", b"theirs".to_vec()).unwrap());
    assert_eq!(store.get("tape/1").unwrap().unwrap(), b"mine");
    store.put(vec![("tape/2".into(), vec![2]), ("blocks/x".into(), vec![])]).unwrap();
    store.put(vec![("tape/2".into(), vec![3])]).unwrap();
    assert_eq!(store.get("tape/2").unwrap().unwrap(), [3]);
    assert_eq!(store.list("tape").unwrap(), ["1", "2"]);
    store.remove(&["tape/1".into(), "tape/7".into()]).unwrap();
    assert_eq!(store.list("tape").unwrap(), ["2"]);
    assert_eq!(store.get("tape/1").unwrap(), None);
}

#[test]
fn folders_and_object_stores_keep_one_contract() {
    let folder = Folder::new("stores");
    check(&FolderStore::open(&folder.0.join("folder"), Access::Exclusive).unwrap());
    let objects = folder.0.join("objects");
    std::fs::create_dir_all(&objects).unwrap();
    check(&ObjectsStore::open(&format!("file://{}", objects.display())).unwrap());
}

#[test]
fn what_is_no_store_is_refused() {
    for url in ["nonsense://x/y", "s3:/x"] {
        // Also with a slash forgotten: it would be a folder of that name.
        assert!(whimbrel_jobs::store::open(url, Access::Exclusive).is_err(), "{url}");
    }
    let folder = Folder::new("no-store");
    let file = folder.0.join("file");
    std::fs::write(&file, "x").unwrap();
    let error = whimbrel_jobs::store::open(&file.join("state").display().to_string(), Access::Exclusive)
        .err()
        .unwrap();
    assert!(error.to_string().contains("file"), "{error}");
}
