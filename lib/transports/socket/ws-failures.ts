import { missingPeer } from '../../core/util/missing-peer.js';
import { ToldFailures, type ToldExceptionClass } from '../call/told-failures.js';

/** Loads the package, which is there where a gateway is. */
export async function wsFailures(): Promise<ToldFailures> {
  try {
    const { WsException } = (await import('@nestjs/websockets')) as {
      WsException: ToldExceptionClass;
    };
    return new ToldFailures(WsException);
  } catch (error) {
    throw missingPeer(error, '@nestjs/websockets', 'A gateway needs');
  }
}
