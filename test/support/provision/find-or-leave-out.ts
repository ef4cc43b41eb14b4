import { findOrInstall, type WantedProgram } from './find-or-install.js';

/** A program that some tests need, and that the others do without. */
export interface OptionalProgram extends WantedProgram<string> {
  /** The tests that are left out without it. */
  readonly tests: string;
  /** Ways to install it, besides Debian's. */
  readonly elsewhere?: string;
  /**
   * What the variable names.
   *
   * @defaultValue its program, which is called as the first of Debian's packages
   */
  readonly named?: { readonly what: string; readonly path: string };
}

/**
 * Finds a program or installs it, and says what it has found. Where that fails the tests go on without it, and this
 * says which are left out; but in CI nothing is left out, and a variable that names a wrong program stops them.
 */
export function findOrLeaveOut(program: OptionalProgram): void {
  const { tests, debianPackages, elsewhere, variable } = program;
  const { what, path } = program.named ?? {
    what: 'its program',
    path: `/path/to/${debianPackages[0] ?? ''}`,
  };
  const debian = `"sudo apt-get install ${debianPackages.join(' ')}" (Debian, Ubuntu)`;
  try {
    console.log(findOrInstall(program));
  } catch (error) {
    console.error(
      [
        '',
        `!! ${tests.toUpperCase()} ARE LEFT OUT`,
        `!! ${error instanceof Error ? error.message : String(error)}`,
        '!! To run them, either',
        `!!   - install it: ${[debian, elsewhere ?? []].flat().join(', ')}, or`,
        `!!   - name ${what}: ${variable}=${path} npm test`,
        '',
      ].join('\n'),
    );
    const isMeant = process.env[variable] === undefined && process.env.CI === undefined;
    if (!isMeant) process.exitCode = 1;
  }
}
