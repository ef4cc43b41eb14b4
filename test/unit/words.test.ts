import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';
import { isPrivate, privateNamesIn } from '../support/words/declared-names.js';
import { phrasesIn } from '../support/words/plain-words.js';

/** Folders whose sentences, and whose names, are still to be rewritten. Neither list may name one that is done. */
const SENTENCES_TO_DO: readonly string[] = [
  '.dependency-cruiser.cjs',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'README.md',
  'SECURITY.md',
  'docs',
  'docs/problems',
  'eslint.config.js',
  'lib',
  'lib/bullmq',
  'lib/cache',
  'lib/cli',
  'lib/client',
  'lib/codecs',
  'lib/core',
  'lib/nest',
  'lib/resilience',
  'lib/stores',
  'lib/swagger',
  'lib/testing',
  'lib/transactions',
  'lib/transports',
  'lua',
  'rollup.config.js',
  'sample-app',
  'sample-app/src',
  'sql',
  'test/conformance',
  'test/contract',
  'test/e2e',
  'test/faults',
  'test/integration',
  'test/lab',
  'test/package',
  'test/soak',
  'test/support',
  'test/unit',
];
const NAMES_TO_DO: readonly string[] = [
  'lib',
  'lib/cache',
  'lib/cli',
  'lib/client',
  'lib/codecs',
  'lib/core',
  'lib/nest',
  'lib/resilience',
  'lib/stores',
  'lib/swagger',
  'lib/testing',
  'lib/transactions',
  'lib/transports',
  'sample-app/src',
  'sql',
  'test/contract',
  'test/e2e',
  'test/faults',
  'test/integration',
  'test/lab',
  'test/package',
  'test/soak',
  'test/support',
  'test/unit',
];

/** The lists themselves, and the page that explains them. */
const OF_THE_LINT = /^test\/(?:unit\/words\.test|support\/words\/)|^docs\/glossary\.md$/;
const PROSE = /\.(?:ts|mts|mjs|js|cjs|lua|sql|md|html|http)$/;
const NOT_OURS = /(?:^|\/)(?:node_modules|dist|build|\.tmp-[^/]*)\/|generated\.ts$/;

const files = ['lib', 'lua', 'sql', 'sample-app', 'test', 'docs', 'eslint-rules', '']
  .flatMap((folder) =>
    readdirSync(join(projectRoot, folder), { recursive: folder !== '', encoding: 'utf8' }).map(
      (name) => join(folder, name).split(sep).join('/'),
    ),
  )
  .filter((file) => PROSE.test(file) && !NOT_OURS.test(file) && !OF_THE_LINT.test(file));

/** A file's folder, as the lists name it: two levels deep at the most. */
function folderOf(file: string): string {
  return file.split('/').slice(0, -1).slice(0, 2).join('/') || file;
}

function byFolder(findingsOf: (file: string, text: string) => readonly string[]) {
  const found = new Map<string, string[]>();
  for (const file of files) {
    const findings = findingsOf(file, readFileSync(join(projectRoot, file), 'utf8'));
    if (findings.length > 0) {
      const folder = folderOf(file);
      found.set(folder, [
        ...(found.get(folder) ?? []),
        ...findings.map((text) => `${file}${text}`),
      ]);
    }
  }
  return found;
}

const sentences = byFolder((_, text) =>
  phrasesIn(text).map(({ line, words, instead }) => `:${line}: "${words}" → ${instead}`),
);
const names = byFolder((file, text) => [
  ...(isPrivate(file.split('/').at(-1)!) ? [' (the name of the file)'] : []),
  ...(file.endsWith('.ts') ? privateNamesIn(file, text).map((name) => `: ${name}`) : []),
]);

describe.each([
  ['sentences', sentences, SENTENCES_TO_DO],
  ['names', names, NAMES_TO_DO],
] as const)('The words of %s', (_, found, toDo) => {
  it('are plain', () => {
    const open = [...found]
      .filter(([folder]) => !toDo.includes(folder))
      .flatMap(([, list]) => list);
    expect(open).toEqual([]);
  });

  it('are still to be rewritten where the list says so', () => {
    expect(toDo.filter((folder) => !found.has(folder))).toEqual([]);
  });
});

describe('The lint', () => {
  it('reads every kind of file', () => {
    const kinds = new Set(files.map((file) => file.replace(/^.*\./, '')));
    expect([...kinds]).toEqual(expect.arrayContaining(['ts', 'md', 'lua', 'sql', 'mjs']));
    expect(files).toEqual(expect.arrayContaining(['README.md', 'CHANGELOG.md', 'lib/index.ts']));
  });

  it.each([
    ['Nobody waits for it.', 'Nobody', 1],
    ['/**\n * What\n * became of it.\n */', 'What became of', 2],
    ['-- The client is\n-- told.', 'told', 2],
  ])('finds %j', (text, words, line) => {
    expect(phrasesIn(text)).toEqual([expect.objectContaining({ words, line })]);
  });

  it('leaves other words alone', () => {
    expect(phrasesIn('The header is returned; this amendment and the player stay.')).toEqual([]);
  });

  it('finds declared names, not used ones', () => {
    const text = 'class Turn { #told = 1; httpAnswer() { return other.look(); } lookUp() {} }';
    expect(privateNamesIn('x.ts', text)).toEqual(['Turn', '#told', 'httpAnswer']);
  });
});
