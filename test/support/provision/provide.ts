import { spawnSync } from 'node:child_process';

const LOCK_TIMEOUT_S = 300;

/** A program that tests need. */
export interface Program {
  /** Its name for a reader. */
  readonly name: string;
  /** The Debian packages that contain it. */
  readonly debianPackages: readonly string[];
  /** Environment variable with the path of another one. If it is set, nothing is installed. */
  readonly variable: string;
  /**
   * What is installed, with its version.
   *
   * @throws Error if it cannot be used.
   */
  readonly find: () => string | undefined;
  /** The tests that are left out without it. */
  readonly tests: string;
  /**
   * Whether those tests fail without it, instead of being left out.
   *
   * @defaultValue false
   */
  readonly isIndispensable?: boolean;
  /** Ways to install it, besides Debian's. */
  readonly elsewhere?: string;
  /**
   * What the variable names.
   *
   * @defaultValue its program
   */
  readonly named?: string;
}

export type Provision = 'provided' | 'left out' | 'absent';

interface Search {
  readonly program: Program;
  readonly found?: string | undefined;
  /** Why it is missing and cannot be installed. */
  readonly problem?: string | undefined;
}

/**
 * Finds programs, installs what is missing with apt-get, all at once, and reports what is installed and which
 * tests are left out. A variable that names a wrong program is a mistake, not a reason to leave tests out.
 */
export function provide(wanted: readonly Program[]): Provision {
  const before = wanted.map(searchFor);
  const missing = before.filter(isMissing).map(({ program }) => program);
  const problem = missing.length === 0 ? undefined : install(missing);
  const results = before.map((one) => (isMissing(one) ? searchFor(one.program) : one));
  const there = results.flatMap(({ found }) => found ?? []);
  if (there.length > 0) console.log(there.join(', '));
  const failed = results.filter(({ found }) => found === undefined);
  for (const one of failed) console.error(complaintAbout({ problem, ...one }));
  const isMistake = ({ program: { variable, isIndispensable = false } }: Search) =>
    isIndispensable || process.env[variable] !== undefined;
  if (failed.some(isMistake)) return 'absent';
  return failed.length > 0 ? 'left out' : 'provided';
}

function searchFor(program: Program): Search {
  const named = process.env[program.variable];
  try {
    const found = program.find();
    if (found !== undefined || named === undefined) return { program, found };
    return {
      program,
      problem: `${program.variable} names ${named}, which is not a ${program.name}.`,
    };
  } catch (error) {
    return { program, problem: error instanceof Error ? error.message : String(error) };
  }
}

function isMissing({ found, problem }: Search): boolean {
  return found === undefined && problem === undefined;
}

/** @returns the problem. */
function install(missing: readonly Program[]): string | undefined {
  if (!succeeds('apt-get', '--version')) return 'It was not found on PATH.';
  const isRoot = process.getuid?.() === 0;
  if (!isRoot && !succeeds('sudo', '-n', 'true')) {
    return 'It was not found on PATH, and installing it needs root.';
  }
  const apt = (...args: string[]) => {
    // A newly started image often installs packages itself.
    const options = ['-qq', '-o', `DPkg::Lock::Timeout=${LOCK_TIMEOUT_S}`];
    const command = [
      '/usr/bin/env',
      'DEBIAN_FRONTEND=noninteractive',
      'apt-get',
      ...options,
      ...args,
    ];
    const [program = '', ...rest] = isRoot ? command : ['sudo', '-n', ...command];
    return spawnSync(program, rest, { stdio: ['ignore', 'inherit', 'inherit'] }).status === 0;
  };
  const add = (programs: readonly Program[]) => {
    const packages = programs.flatMap(({ debianPackages }) => debianPackages);
    console.log(`Installing ${packages.join(', ')} with apt-get.`);
    // It fails, too, where a package's own service cannot be started, which is not needed here.
    return apt('install', '-y', '--no-install-recommends', ...packages) || isThere(programs);
  };
  if (add(missing)) return undefined;
  // A fresh image has no package lists.
  if (apt('update') && add(missing)) return undefined;
  // One package that this system does not have must not block the others.
  if (missing.length > 1) for (const program of missing) if (!isThere([program])) add([program]);
  return 'apt-get could not install it.';
}

function isThere(programs: readonly Program[]): boolean {
  return programs.every((program) => searchFor(program).found !== undefined);
}

function succeeds(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

function complaintAbout({ program, problem }: Search): string {
  const { name, tests, debianPackages, variable, elsewhere, isIndispensable, named } = program;
  const debian = `"sudo apt-get install ${debianPackages.join(' ')}" (Debian, Ubuntu)`;
  return [
    '',
    `!! ${tests.toUpperCase()} ${isIndispensable === true ? 'CANNOT RUN' : 'ARE LEFT OUT'}: ${name}`,
    `!! ${problem ?? 'It was installed, but does not start.'}`,
    '!! To run them, either',
    `!!   - install it: ${[debian, elsewhere ?? []].flat().join(', ')}, or`,
    `!!   - name ${named ?? 'its program'}: ${variable}=/path/to/it npm test`,
    '',
  ].join('\n');
}
