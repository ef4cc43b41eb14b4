/**
 * The parts of `npm run test:all`, as test/parts.json defines them by patterns of files. For each part,
 * `.ci/verified` has the digest of all that it depends on, from the last time that its tests passed.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SOURCE, closureOf } from './closure.mjs';

const PARTS = 'test/parts.json';
export const VERIFIED = '.ci/verified';

/** Variables that make tests check something else, or less: such a run does not write VERIFIED. */
export const NARROWING = [
  'BEGINS',
  'CLIENT_PAYMENTS',
  'CLIENT_SEED',
  'CONTRACT_PEER_URL',
  'CONTRACT_URL',
  'ENDURANCE_REPLAYS',
  'FAILOVERS',
  'FIRST_REQUESTS',
  'PAYLOAD_KEYS',
  'RANDOM_PATH',
  'RANDOM_RUNS',
  'RANDOM_SEED',
  'SOAK_REQUESTS',
];

/** What every part depends on, besides the folder of each file that it loads. */
const COMMON = [
  '.npmrc',
  'jest.config.js',
  'lib',
  'lua',
  'package-lock.json',
  'package.json',
  'sql',
  'test/run',
  'test/support',
  'test/tsconfig.json',
  'tsconfig.json',
];

/** With its `isTestAll`, a file that `npm test` runs as well has other parameters here. */
const TEST_ALL = 'test/support/jest/test-all.ts';

/** @returns `{ name, patterns, files }` of each. */
export function readParts(root) {
  const parts = JSON.parse(readFileSync(join(root, PARTS), 'utf8'));
  const tests = testFiles(root);
  return Object.entries(parts).map(([name, part]) => ({
    name,
    patterns: part.tests,
    files: tests.filter((file) => part.tests.some((pattern) => regExpOf(pattern).test(file))),
  }));
}

/** The mistakes in the parts: a file without a part, or one that would do the same as in `npm test`. */
export function complaintsAbout(parts, root) {
  const complaints = [];
  for (const file of testFiles(root)) {
    const holders = parts.filter(({ files }) => files.includes(file)).map(({ name }) => name);
    if (holders.length > 1) complaints.push(`${file} is in several parts: ${holders.join(', ')}`);
    if (holders.length === 0 && file.endsWith('.all.test.ts')) {
      complaints.push(`${file} is in no part of ${PARTS}`);
    }
  }
  for (const { name, patterns, files } of parts) {
    for (const pattern of patterns) {
      if (!files.some((file) => regExpOf(pattern).test(file))) {
        complaints.push(`${name}: no file is named ${pattern}`);
      }
    }
    for (const file of files) {
      if (!file.endsWith('.all.test.ts') && !closureOf([file], root).includes(TEST_ALL)) {
        complaints.push(`${file} does the same in npm test: it does not use isTestAll`);
      }
    }
  }
  return complaints;
}

/** @returns by the part's name; nothing without git. */
export function digestsOf(parts, root) {
  try {
    return Object.fromEntries(parts.map((part) => [part.name, digestOf(part, root)]));
  } catch {
    return {};
  }
}

function digestOf({ files }, root) {
  const paths = new Set([...COMMON, ...closureOf(files, root).flatMap(pathspecsOf)]);
  const tracked = git(root, 'ls-files', '--stage', '-z', '--', ...paths);
  return createHash('sha256').update(tracked).digest('hex');
}

/** The file, and its folder: code may read a file of it by a composed name. */
function pathspecsOf(path) {
  if (isBelow(path, COMMON)) return [];
  const folder = dirname(path);
  if (!SOURCE.test(path) || folder === '.') return [path];
  return [path.endsWith('.test.ts') ? `:(glob)${folder}/*` : folder];
}

/** Whether the files are those of a commit. */
export function isCleanTree(root) {
  try {
    return git(root, 'status', '--porcelain', '--', '.', `:(exclude)${VERIFIED}`) === '';
  } catch {
    return false;
  }
}

/** @returns digests by the part's name; `undefined` if the file contains anything else. */
export function readVerified(root) {
  const file = join(root, VERIFIED);
  if (!existsSync(file)) return {};
  try {
    const verified = JSON.parse(readFileSync(file, 'utf8'));
    return verified?.constructor === Object ? verified : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param digests - of the passed parts, and `undefined` for those that have not; those of others remain as
 * long as there is such a part.
 */
export function writeVerified(digests, parts, root) {
  const merged = { ...readVerified(root), ...digests };
  const names = parts.map(({ name }) => name).filter((name) => merged[name] !== undefined);
  const sorted = Object.fromEntries(names.sort().map((name) => [name, merged[name]]));
  mkdirSync(dirname(join(root, VERIFIED)), { recursive: true });
  writeFileSync(join(root, VERIFIED), `${JSON.stringify(sorted, undefined, 2)}\n`);
}

function testFiles(root) {
  const names = readdirSync(join(root, 'test'), { recursive: true });
  return names.filter((name) => name.endsWith('.test.ts')).map((name) => `test/${name}`);
}

/** Of `**`, `*` and `{a,b}`, as Jest understands them. */
function regExpOf(pattern) {
  const source = pattern
    .replaceAll(/[.+^$()|[\]\\]/g, '\\$&')
    .replaceAll(/\{([^}]*)\}/g, (_, names) => `(?:${names.replaceAll(',', '|')})`)
    .replaceAll(/\*\*\/|\*/g, (stars) => (stars === '*' ? '[^/]*' : '(?:.*/)?'));
  return new RegExp(`^${source}$`);
}

function isBelow(path, folders) {
  return folders.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

function git(root, ...args) {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 1e8 });
}
