-- name: PostsOfAuthor :many
SELECT p.id, p.title, u.name FROM public.posts p JOIN users u ON u.id = p.author
WHERE p.author = $1 AND p.at < now() ORDER BY p.at DESC LIMIT 20;

-- name: Comments :many
SELECT c.*, p.title FROM comments c JOIN posts p ON p.id = c.post_id WHERE c.post_id = $1::int;

-- name: BySlug :one
SELECT * FROM posts WHERE slug = $1 FOR UPDATE;

-- name: ByToken :one
SELECT * FROM posts WHERE token = $1::uuid LIMIT 1;

-- name: ByTitle :many
SELECT * FROM posts WHERE lower(title) = lower($1) LIMIT 10;

-- name: Recent :many
SELECT * FROM posts ORDER BY at DESC LIMIT 10;

-- name: CreateUser :one
INSERT INTO users (id, name) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET name = excluded.name RETURNING id;

-- name: Visit :exec
INSERT INTO visits VALUES ($1, $2);

-- name: Happy :many
SELECT count(*) FROM users WHERE mood = 'happy';

-- name: Report :many
-- allow unbounded 'once a night'
SELECT author, count(*) FROM posts GROUP BY author;

-- name: Some :many
SELECT * FROM posts WHERE id = ANY($1::int[]);

-- name: Page :many
SELECT * FROM posts ORDER BY at DESC LIMIT $1 OFFSET $2;

-- name: Between :many
SELECT id, title FROM posts WHERE author = @author AND at >= sqlc.arg(since) AND at < sqlc.arg('until')
ORDER BY at DESC LIMIT 30;
