import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  type CanActivate,
  type ExecutionContext,
  Injectable,
  UnauthorizedException,
} from '@nestjs/common';

/** The request after the guard. */
interface CartRequest {
  readonly headers: Readonly<Record<string, string | undefined>>;
  cart?: string;
}

const sign = (cart: string) =>
  createHmac('sha256', process.env.CART_SECRET!).update(cart).digest('base64url');

/** The token of a new cart, which the server gives to the browser: its id and a signature. */
export const cartToken = (cart: string) => `${cart}.${sign(cart)}`;

/** Lets a request through whose cart is one that this server gave out. */
@Injectable()
export class CartGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<CartRequest>();
    const [cart = '', signature = ''] = request.headers['x-cart']?.split('.') ?? [];
    const expected = Buffer.from(sign(cart));
    const given = Buffer.from(signature);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
      throw new UnauthorizedException();
    }
    request.cart = cart;
    return true;
  }
}

/** Each cart has its own keys. The first part keeps them apart from those of users. */
export function cartOf(context: ExecutionContext) {
  const { cart } = context.switchToHttp().getRequest<CartRequest>();
  return cart && ['cart', cart];
}
