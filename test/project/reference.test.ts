import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { EVENT_SEVERITY, REJECTIONS } from '../support/internals/core.js';
import { OPTIONS } from '../support/internals/nest.js';
import { projectRoot } from '../support/project-root.js';

const read = (path: string) => readFileSync(join(projectRoot, path), 'utf8');

function filesIn(folder: string, ending: string): string[] {
  return readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .sort();
}

const sources = (isWanted: (file: string) => boolean) =>
  filesIn('lib', '.ts')
    .filter(isWanted)
    .map((file) => read(`lib/${file}`))
    .join('\n');
const library = sources((file) => !file.startsWith('cli/'));
const doctor = sources((file) => file.startsWith('cli/doctor/'));

function matches(text: string, pattern: RegExp): string[] {
  return [...new Set(Array.from(text.matchAll(pattern), ([, found]) => found!))];
}

/** Names as code writes or reads them: `headers['x']`, `getHeader('x')`, `fieldValue(headers, 'x')`. */
const HEADER =
  /(?:[hH]eaders\[|headers\.(?:get|has|set)\(|[gs]etHeader\(|fieldLines\([\w., ]+, |fieldValue\(\w+, )'([\w-]+)'/g;

function optionNames(): string[] {
  const groups = OPTIONS as unknown as Record<string, { fields?: Record<string, unknown> }>;
  return Object.entries(groups).flatMap(([name, { fields }]) =>
    Object.keys(fields ?? { [name]: 1 }),
  );
}

interface Subject {
  readonly what: string;
  readonly page: string;
  readonly names: readonly string[];
  /** How the page writes a name. */
  readonly asWritten?: (name: string) => string;
}

const inRow = (name: string) => `| \`${name}\` |`;
const asCode = (name: string) => `\`${name}\``;

const subjects: readonly Subject[] = [
  { what: 'option', page: 'options.md', names: optionNames(), asWritten: inRow },
  { what: 'event', page: 'events.md', names: Object.keys(EVENT_SEVERITY), asWritten: inRow },
  { what: 'problem', page: 'problems/README.md', names: Object.keys(REJECTIONS) },
  { what: 'code', page: 'errors.md', names: matches(library, /\bcode = '(idempotency_\w+)'/g) },
  { what: 'rejection', page: 'errors.md', names: Object.keys(REJECTIONS) },
  {
    what: 'warning of a store',
    page: 'errors.md',
    names: matches(library, /code: '([a-z]+_[a-z_]+)'/g),
  },
  {
    what: 'warning',
    page: 'errors.md',
    names: matches(library, /(?:code: '|\[)(IDEMPOTENCY_[A-Z_]+)['\]]/g),
  },
  {
    what: 'header',
    page: 'headers.md',
    names: matches(library, HEADER).map((name) => name.toLowerCase()),
    asWritten: (name) => `\`${name}`,
  },
  {
    what: 'script',
    page: 'lua-and-sql.md',
    names: [...filesIn('lua', '.lua'), ...filesIn('sql', '.sql')]
      .filter((name) => !name.startsWith('shared/'))
      .map((name) => name.replace(/^migrations\//, '')),
  },
  {
    what: 'check of the doctor',
    page: '../operations/doctor.md',
    names: matches(doctor, /\b(?:ok|warning|error)\(\s*'([a-z]+)',/g),
  },
  {
    what: 'page',
    page: 'README.md',
    names: filesIn('docs/reference', '.md').filter(
      (name) => name !== 'README.md' && !/^problems\/[a-z]/.test(name),
    ),
    asWritten: (name) => `](${name})`,
  },
];

/** The names that a page lacks. */
function missing({ names, asWritten = asCode, page }: Subject, text: string): string[] {
  // Headers are written as they are in RFC 9110, and read in lower case.
  const content = page === 'headers.md' ? text.toLowerCase() : text;
  return names.filter((name) => !content.includes(asWritten(name)));
}

describe.each(subjects)('Every $what', (subject) => {
  const page = read(`docs/reference/${subject.page}`);

  it(`has its place in ${subject.page}`, () => {
    expect(subject.names.length).toBeGreaterThan(1);
    expect(missing(subject, page)).toEqual([]);
  });

  it('is missed there', () => {
    const [name] = subject.names as [string];
    const { asWritten = asCode } = subject;
    const written = asWritten(name).replace(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
    expect(missing(subject, page.replace(new RegExp(written, 'gi'), ''))).toContain(name);
  });
});
