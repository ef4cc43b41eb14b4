import { missingPeer } from '../../core/util/missing-peer.js';
import { ToldFailures, type ToldExceptionClass } from '../call/told-failures.js';

/** Loads the package, which is there where messages are. */
export async function rpcFailures(): Promise<ToldFailures> {
  try {
    const { RpcException } = (await import('@nestjs/microservices')) as {
      RpcException: ToldExceptionClass;
    };
    return new ToldFailures(RpcException);
  } catch (error) {
    throw missingPeer(error, '@nestjs/microservices', 'A message handler needs');
  }
}
