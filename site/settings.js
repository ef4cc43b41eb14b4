import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '..');
export const REPOSITORY = 'https://github.com/nestjs-idempotency/nestjs-idempotency';
/** The path under which the site is published. */
export const BASE = process.env.SITE_BASE ?? '/nestjs-idempotency/';
export const ADDRESS = `https://nestjs-idempotency.github.io${BASE}`;

/**
 * The released minor versions, newest first, each with its last tag: `{ minor: '0.1', tag: 'v0.1.3' }`.
 *
 * @param {string} root - a checkout that has its tags.
 */
export function publishedIn(root) {
  const tags = execFileSync('git', ['tag', '--list', '--sort=-version:refname', 'v*'], {
    cwd: root,
    encoding: 'utf8',
  });
  const released = tags.split('\n').flatMap((tag) => /^v(\d+\.\d+)\.\d+$/.exec(tag) ?? []);
  const newest = new Map();
  for (let at = 0; at < released.length; at += 2) {
    const [tag, minor] = released.slice(at, at + 2);
    if (!newest.has(minor)) newest.set(minor, { minor, tag });
  }
  return [...newest.values()];
}
