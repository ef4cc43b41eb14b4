import { Session, type Profiler } from 'node:inspector/promises';

const LIBRARY = new URL('../../lib/', import.meta.url).href;

/** The files of `lib` in which a function runs. Started before `lib` is loaded: V8 counts what it compiles from then on. */
export class Coverage {
  private constructor(private readonly session: Session) {}

  static async start(): Promise<Coverage> {
    const session = new Session();
    session.connect();
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    return new Coverage(session);
  }

  /** The files since the last call, as paths below `lib`; V8 sets its counts to 0. */
  async take(): Promise<readonly string[]> {
    const { result } = await this.session.post('Profiler.takePreciseCoverage');
    return result
      .filter(({ url, functions }) => url.startsWith(LIBRARY) && functions.some(hasRun))
      .map(({ url }) => url.slice(LIBRARY.length));
  }
}

/** A module's own code runs when the module is loaded; V8 lists it as a function without a name that begins at 0. */
function hasRun({ functionName, ranges: [range] }: Profiler.FunctionCoverage): boolean {
  const isModule = functionName === '' && range?.startOffset === 0;
  return !isModule && range !== undefined && range.count > 0;
}
