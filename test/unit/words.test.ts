import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';
import { isPrivate, privateNamesIn, privateWordsIn } from '../support/docs/words/declared-names.js';
import { phrasesIn } from '../support/docs/words/plain-words.js';

/** The lists of phrases and words, and the page that explains them. */
const OF_THE_LINT = /^test\/(?:unit\/words\.test|support\/docs\/words\/)|^docs\/glossary\.md$/;
const NOT_OURS =
  /(?:^|\/)(?:node_modules|dist|build|\.tmp-[^/]*)\/|generated\.ts$|^package-lock\.json$/;

/** `''`: the files beside them. */
const FOLDERS = ['lib', 'lua', 'sql', 'sample-app', 'test', 'docs', 'eslint-rules', ''];
const PAGES = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];

/** For each kind of file, a comment or sentence with a phrase that runs over the end of a line. */
const PLANTED = {
  ts: 'let x;\n// It ends of its\n// own accord.',
  mts: 'let x;\n// It ends of its\n// own accord.',
  mjs: 'let x;\n// It ends of its\n// own accord.',
  js: 'let x;\n// It ends of its\n// own accord.',
  cjs: 'let x;\n// It ends of its\n// own accord.',
  c: 'let x;\n// It ends of its\n// own accord.',
  pml: 'let x;\n// It ends of its\n// own accord.',
  prisma: 'let x;\n// It ends of its\n// own accord.',
  css: '/*\n * It ends of its own\n * accord. */',
  lua: '-- When idle.\n-- It ends of its\n-- own accord.',
  sql: '-- When idle.\n-- It ends of its\n-- own accord.',
  http: '# C01\n# It ends of its\n# own accord.',
  md: '# When idle\n> It ends of\n> its own accord.',
  html: '<p>\nIt ends of its\n own accord.</p>',
  json: '{\n"description": "It ends of its own accord"}',
};

const PROSE = new RegExp(`\\.(?:${Object.keys(PLANTED).join('|')})$`);

const files = FOLDERS.flatMap((folder) =>
  readdirSync(join(projectRoot, folder), { recursive: folder !== '', encoding: 'utf8' }).map(
    (name) => join(folder, name).split(sep).join('/'),
  ),
).filter((file) => PROSE.test(file) && !NOT_OURS.test(file) && !OF_THE_LINT.test(file));

/** What a file has of {@link PHRASES} and of private names, each with its place. */
function findingsIn(file: string, text: string): string[] {
  return [
    ...phrasesIn(text).map(
      ({ line, words, instead }) => `${file}:${line}: "${words}" → ${instead}`,
    ),
    ...(isPrivate(file.split('/').at(-1)!) ? [`${file} (its name)`] : []),
    ...(/\.[cm]?[jt]s$/.test(file)
      ? privateNamesIn(file, text).map((name) => `${file}: ${name}`)
      : []),
    ...(/\.(?:lua|sql)$/.test(file) ? privateWordsIn(text).map((name) => `${file}: ${name}`) : []),
  ];
}

it('The words of sentences and names are plain', () => {
  const findings = files.flatMap((file) =>
    findingsIn(file, readFileSync(join(projectRoot, file), 'utf8')),
  );
  expect(findings).toEqual([]);
});

it('No file has the marks of an unresolved merge', () => {
  const marks = /^(?:<{7}|>{7}) \S/m;
  const marked = files.filter((file) => marks.test(readFileSync(join(projectRoot, file), 'utf8')));
  expect(marked).toEqual([]);
  expect('text\n>>>>>>> main\n').toMatch(marks);
});

describe('The lint', () => {
  it('reads every kind of file, in every folder', () => {
    const kinds = new Set(files.map((file) => file.replace(/^.*\./, '')));
    const folders = new Set(files.map((file) => (file.includes('/') ? file.split('/')[0] : '')));
    expect([...kinds].sort()).toEqual(Object.keys(PLANTED).sort());
    expect([...folders].sort()).toEqual([...FOLDERS].sort());
    expect(files).toEqual(expect.arrayContaining(PAGES));
  });

  it.each(Object.entries(PLANTED))('finds a phrase in a file of .%s', (kind, comment) => {
    expect(findingsIn(`planted.${kind}`, comment)).toEqual([
      expect.stringContaining(`planted.${kind}:2: "of its own accord"`),
    ]);
  });

  it.each(['ts', 'mts', 'mjs', 'js', 'cjs'])('finds a private name in a file of .%s', (kind) => {
    expect(findingsIn(`planted.${kind}`, 'export class Turn {}')).toEqual([
      `planted.${kind}: Turn`,
    ]);
  });

  it.each([
    ['sql', '-- A turn.\nWITH turn AS (SELECT 1) SELECT 2'],
    ['lua', '--[[\nA turn.\n]]\nlocal turn = 1'],
  ])('finds a private name in a file of .%s', (kind, text) => {
    expect(findingsIn(`planted.${kind}`, text)).toEqual([`planted.${kind}: turn`]);
  });

  it('finds a private name of a file', () => {
    expect(findingsIn('lib/core/waiting-turn.ts', '')).toEqual([
      'lib/core/waiting-turn.ts (its name)',
    ]);
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
