import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import {
  IsInt,
  IsISO4217CurrencyCode,
  IsOptional,
  IsString,
  Max,
  MaxLength,
  Min,
} from 'class-validator';

export class CreatePaymentDto {
  @ApiProperty({
    type: 'integer',
    minimum: 1,
    maximum: 99_999_999,
    example: 4999,
    description: 'In minor units: 4999 is 49.99 EUR.',
  })
  @IsInt()
  @Min(1)
  @Max(99_999_999)
  amount!: number;

  @ApiProperty({ example: 'EUR', description: 'ISO 4217' })
  @IsISO4217CurrencyCode()
  currency!: string;

  @ApiPropertyOptional({ maxLength: 200 })
  @IsOptional()
  @IsString()
  @MaxLength(200)
  description?: string;
}
