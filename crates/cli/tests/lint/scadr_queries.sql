-- name: find_user :one
select * from users where username = ?;

-- name: my_thoughts :many
select * from thoughts where owner = :owner order by timestamp desc paginate 10;

-- name: followed
select u.* from subscriptions s join users u on s.target = u.username where s.owner = $1 paginate 10;

-- name: thought_stream
select t.* from subscriptions s join thoughts t on t.owner = s.target
where s.owner = ? and s.approved order by t.timestamp desc limit 10;

-- name: following
select u.* from subscriptions s join users u on u.username = s.owner where s.target = ? paginate 10;

-- name: subscription
select * from subscriptions where owner = ? and target = ?;

-- name: intersection
select * from subscriptions where target = ? and owner in (? limit 50);

-- name: post
insert into thoughts values (?, ?, ?);

-- name: follow
insert into subscriptions values (?, ?, false);

-- name: approve
update subscriptions set approved = true where owner = ? and target = ?;

-- name: unfollow
delete from subscriptions where owner = ? and target = ?;
