/*
 * SPDX-FileCopyrightText: Copyright (c) 1993-2024 NVIDIA CORPORATION & AFFILIATES. All rights reserved.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at
 *
 * http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */
// Changed: all comments after this were removed.
#ifndef NV_INFER_LEGACY_DIMS_H
#define NV_INFER_LEGACY_DIMS_H
#define NV_INFER_INTERNAL_INCLUDE_RUNTIME_BASE 1
#include "NvInferRuntimeBase.h"
#undef NV_INFER_INTERNAL_INCLUDE_RUNTIME_BASE
namespace nvinfer1
{
class Dims2 : public Dims
{
public:
    Dims2()
        : Dims2(0, 0)
    {
    }
    Dims2(int64_t d0, int64_t d1)
    {
        nbDims = 2;
        d[0] = d0;
        d[1] = d1;
        for (int64_t i{nbDims}; i < Dims::MAX_DIMS; ++i)
        {
            d[i] = 0;
        }
    }
};
class DimsHW : public Dims2
{
public:
    DimsHW()
        : Dims2()
    {
    }
    DimsHW(int64_t height, int64_t width)
        : Dims2(height, width)
    {
    }
    int64_t& h()
    {
        return d[0];
    }
    int64_t h() const
    {
        return d[0];
    }
    int64_t& w()
    {
        return d[1];
    }
    int64_t w() const
    {
        return d[1];
    }
};
class Dims3 : public Dims2
{
public:
    Dims3()
        : Dims3(0, 0, 0)
    {
    }
    Dims3(int64_t d0, int64_t d1, int64_t d2)
        : Dims2(d0, d1)
    {
        nbDims = 3;
        d[2] = d2;
    }
};
class Dims4 : public Dims3
{
public:
    Dims4()
        : Dims4(0, 0, 0, 0)
    {
    }
    Dims4(int64_t d0, int64_t d1, int64_t d2, int64_t d3)
        : Dims3(d0, d1, d2)
    {
        nbDims = 4;
        d[3] = d3;
    }
};
}
#endif
