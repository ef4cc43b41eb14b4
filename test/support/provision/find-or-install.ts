import { spawnSync } from 'node:child_process';

const LOCK_TIMEOUT_S = 300;

/** A program that tests need. */
export interface WantedProgram<Found> {
  /** As a person would call it. */
  readonly name: string;
  /** Debian's packages that bring it. */
  readonly debianPackages: readonly string[];
  /** Environment variable with the path of one's own. Where it is set, nothing is installed. */
  readonly variable: string;
  readonly find: () => Found | undefined;
}

/**
 * Finds a program, or installs it with apt-get and finds it then.
 *
 * @throws Error that says what stands in the way.
 */
export function findOrInstall<Found>(program: WantedProgram<Found>): Found {
  const found = program.find();
  if (found !== undefined) return found;
  install(program);
  const installed = program.find();
  if (installed === undefined)
    throw new Error(`${program.name} was installed, but does not start.`);
  return installed;
}

function install({ name, debianPackages, variable, find }: WantedProgram<unknown>): void {
  const named = process.env[variable];
  if (named !== undefined) throw new Error(`${variable} names ${named}, which is no ${name}.`);
  if (!succeeds('apt-get', ['--version'])) throw new Error(`${name} was not found on PATH.`);
  const asRoot = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  if (asRoot.length > 0 && !succeeds('sudo', ['-n', 'true'])) {
    throw new Error(`${name} was not found on PATH, and installing it needs root.`);
  }
  const packages = debianPackages.join(' ');
  console.log(`${name} was not found: installing ${packages} with apt-get.`);
  // Somebody else may be installing: an image that has just started often is.
  const patience = `DPkg::Lock::Timeout=${LOCK_TIMEOUT_S}`;
  const apt = [...asRoot, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-q', '-o', patience];
  const addPackage = [...apt, 'install', '-y', '--no-install-recommends', ...debianPackages];
  // apt-get fails, too, where a package's own service cannot be started: nobody here needs that.
  const add = () => run(addPackage) || find() !== undefined;
  // A fresh image has no package lists.
  if (!add() && !(run([...apt, 'update']) && add())) {
    throw new Error(`apt-get could not install ${packages}.`);
  }
}

function run([command = '', ...args]: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'] }).status === 0;
}

function succeeds(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}
