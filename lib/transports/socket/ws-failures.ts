import { ToldFailures, type ToldExceptionClass } from '../call/told-failures.js';

/** Loads the package, which is there where a gateway is. */
export async function wsFailures(): Promise<ToldFailures> {
  const { WsException } = (await import('@nestjs/websockets')) as {
    WsException: ToldExceptionClass;
  };
  return new ToldFailures(WsException);
}
