import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installPackages, type Installation } from '../../support/packages/install-packages.js';
import { outsideEnvironment } from '../../support/processes/processes.js';
import { projectRoot } from '../../support/project-root.js';

const run = promisify(execFile);

export interface ConsumerAppOptions extends Installation {
  readonly root: string;
  readonly tarball: string;
}

/** A new project that has installed the tarball from scratch. */
export class ConsumerApp {
  private constructor(private readonly root: string) {}

  static async install(options: ConsumerAppOptions): Promise<ConsumerApp> {
    const { root, tarball, type, dependencies } = options;
    await mkdir(root);
    await cp(join(projectRoot, 'test/package/consumer'), root, { recursive: true });
    await installPackages(root, {
      type,
      dependencies: { ...dependencies, 'nestjs-idempotency': `file:${tarball}` },
    });
    return new ConsumerApp(root);
  }

  /** Adds an ES module to the project, like a third-party package. */
  async addModule(name: string, text: string): Promise<void> {
    const folder = join(this.root, 'node_modules', name);
    await mkdir(folder, { recursive: true });
    const manifest = { name, type: 'module', exports: './index.js' };
    await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
    await writeFile(join(folder, 'index.js'), text);
  }

  /** Compiles main.ts; rejects with the compiler's messages. */
  async compile(): Promise<void> {
    const tsc = join(projectRoot, 'node_modules/typescript/bin/tsc');
    try {
      await run(process.execPath, [tsc, '-p', this.root], { cwd: this.root });
    } catch (error) {
      throw new Error((error as { stdout: string }).stdout, { cause: error });
    }
  }

  /** Runs `script` in the project, as its own kind of module, and returns its output. */
  async print(script: string): Promise<string> {
    const { stdout } = await run(process.execPath, ['--eval', script], {
      cwd: this.root,
      env: outsideEnvironment(),
    });
    return stdout.trim();
  }

  /** Runs a program of the package, and returns its output. */
  async bin(name: string, ...args: string[]): Promise<string> {
    const { stdout } = await run(join(this.root, 'node_modules/.bin', name), args, {
      cwd: this.root,
      env: outsideEnvironment(),
    });
    return stdout;
  }

  /** Runs the program of the package, with `input`, to its end, however it ends. */
  async command(args: readonly string[], environment: NodeJS.ProcessEnv, input = '') {
    const child = spawn(join(this.root, 'node_modules/.bin/nestjs-idempotency'), args, {
      cwd: this.root,
      env: { ...outsideEnvironment(), ...environment },
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    child.stdin.end(input);
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, stdout, stderr };
  }

  /** Starts the compiled main.js and waits until it listens. */
  async start(environment: NodeJS.ProcessEnv = {}): Promise<RunningApp> {
    const child = spawn(process.execPath, ['main.js'], {
      cwd: this.root,
      env: { ...outsideEnvironment(), ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let log = '';
    const url = await new Promise<string>((resolve, reject) => {
      const read = (chunk: Buffer) => {
        log += chunk.toString();
        const [, listening] = /^listening on (.*)\n/m.exec(log) ?? [];
        if (listening !== undefined) resolve(listening);
      };
      child.stdout.on('data', read);
      child.stderr.on('data', read);
      child.once('close', () => {
        reject(new Error(`The application ended before it listened:\n${log}`));
      });
    });
    const stop = async () => {
      const ended = once(child, 'close');
      child.kill('SIGTERM');
      await ended;
      return log;
    };
    return { url, stop };
  }
}

export interface RunningApp {
  readonly url: string;
  /** @returns its output, standard and error. */
  stop(): Promise<string>;
}
