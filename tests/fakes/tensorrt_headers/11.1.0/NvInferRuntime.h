/*
 * SPDX-FileCopyrightText: Copyright (c) 1993-2026 NVIDIA CORPORATION & AFFILIATES. All rights reserved.
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
#ifndef NV_INFER_RUNTIME_H
#define NV_INFER_RUNTIME_H
#include "NvInferImpl.h"
#define NV_INFER_INTERNAL_INCLUDE 1
#include "NvInferPluginBase.h"
#undef NV_INFER_INTERNAL_INCLUDE
#include "NvInferRuntimeCommon.h"
namespace nvinfer1
{
class IExecutionContext;
class ICudaEngine;
class IPluginFactory;
class IEngineInspector;
class INoCopy
{
protected:
    INoCopy() = default;
    virtual ~INoCopy() = default;
    INoCopy(INoCopy const& other) = delete;
    INoCopy& operator=(INoCopy const& other) = delete;
    INoCopy(INoCopy&& other) = delete;
    INoCopy& operator=(INoCopy&& other) = delete;
};
enum class EngineCapability : int32_t
{
    kSTANDARD = 0,
    kSAFETY = 1,
    kDLA_STANDALONE = 2,
};
template <>
struct impl::EnumMaxImpl<EngineCapability>
{
    static constexpr int32_t kVALUE = 3;
};
class Weights
{
public:
    DataType type;
    void const* values;
    int64_t count;
};
class IHostMemory : public INoCopy
{
public:
    virtual ~IHostMemory() noexcept = 0;
    void* data() const noexcept
    {
        return mImpl->data();
    }
    std::size_t size() const noexcept
    {
        return mImpl->size();
    }
    DataType type() const noexcept
    {
        return mImpl->type();
    }
protected:
    apiv::VHostMemory* mImpl;
};
inline IHostMemory::~IHostMemory() noexcept = default;
enum class DimensionOperation : int32_t
{
    kSUM = 0,
    kPROD = 1,
    kMAX = 2,
    kMIN = 3,
    kSUB = 4,
    kEQUAL = 5,
    kLESS = 6,
    kFLOOR_DIV = 7,
    kCEIL_DIV = 8
};
template <>
struct impl::EnumMaxImpl<DimensionOperation>
{
    static constexpr int32_t kVALUE = 9;
};
enum class TensorLocation : int32_t
{
    kDEVICE = 0,
    kHOST = 1,
};
template <>
struct impl::EnumMaxImpl<TensorLocation>
{
    static constexpr int32_t kVALUE = 2;
};
class IDimensionExpr : public INoCopy
{
public:
    bool isConstant() const noexcept
    {
        return mImpl->isConstant();
    }
    int64_t getConstantValue() const noexcept
    {
        return mImpl->getConstantValue();
    }
protected:
    apiv::VDimensionExpr* mImpl;
    virtual ~IDimensionExpr() noexcept = 0;
public:
    bool isSizeTensor() const noexcept
    {
        return mImpl->isSizeTensor();
    }
};
inline IDimensionExpr::~IDimensionExpr() noexcept = default;
class IExprBuilder : public INoCopy
{
public:
    IDimensionExpr const* constant(int64_t value) noexcept
    {
        return mImpl->constant(value);
    }
    IDimensionExpr const* operation(
        DimensionOperation op, IDimensionExpr const& first, IDimensionExpr const& second) noexcept
    {
        return mImpl->operation(op, first, second);
    }
protected:
    apiv::VExprBuilder* mImpl;
    virtual ~IExprBuilder() noexcept = 0;
public:
    IDimensionExpr const* declareSizeTensor(int32_t outputIndex, IDimensionExpr const& opt, IDimensionExpr const& upper)
    {
        return mImpl->declareSizeTensor(outputIndex, opt, upper);
    }
};
inline IExprBuilder::~IExprBuilder() noexcept = default;
class DimsExprs
{
public:
    int32_t nbDims;
    IDimensionExpr const* d[Dims::MAX_DIMS];
};
struct DynamicPluginTensorDesc
{
    PluginTensorDesc desc;
    Dims min;
    Dims max;
    Dims opt;
};
class TRT_DEPRECATED IPluginV2DynamicExt : public nvinfer1::IPluginV2Ext
{
public:
    IPluginV2DynamicExt* clone() const noexcept override = 0;
    virtual DimsExprs getOutputDimensions(
        int32_t outputIndex, DimsExprs const* inputs, int32_t nbInputs, IExprBuilder& exprBuilder) noexcept = 0;
    static constexpr int32_t kFORMAT_COMBINATION_LIMIT = 100;
    virtual bool supportsFormatCombination(
        int32_t pos, PluginTensorDesc const* inOut, int32_t nbInputs, int32_t nbOutputs) noexcept = 0;
    virtual void configurePlugin(DynamicPluginTensorDesc const* in, int32_t nbInputs,
        DynamicPluginTensorDesc const* out, int32_t nbOutputs) noexcept = 0;
    virtual size_t getWorkspaceSize(PluginTensorDesc const* inputs, int32_t nbInputs, PluginTensorDesc const* outputs,
        int32_t nbOutputs) const noexcept = 0;
    virtual int32_t enqueue(PluginTensorDesc const* inputDesc, PluginTensorDesc const* outputDesc,
        void const* const* inputs, void* const* outputs, void* workspace, cudaStream_t stream) noexcept = 0;
protected:
    int32_t getTensorRTVersion() const noexcept override
    {
        return (static_cast<int32_t>(PluginVersion::kV2_DYNAMICEXT) << 24 | (NV_TENSORRT_VERSION & 0xFFFFFF));
    }
    virtual ~IPluginV2DynamicExt() noexcept {}
private:
    void configurePlugin(Dims const*, int32_t, Dims const*, int32_t, DataType const*, DataType const*, bool const*,
        bool const*, PluginFormat, int32_t) noexcept final
    {
    }
    bool supportsFormat(DataType, PluginFormat) const noexcept final
    {
        return false;
    }
    Dims getOutputDimensions(int32_t, Dims const*, int32_t) noexcept final
    {
        return Dims{-1, {}};
    }
    size_t getWorkspaceSize(int32_t) const noexcept final
    {
        return 0;
    }
    int32_t enqueue(int32_t, void const* const*, void* const*, void*, cudaStream_t) noexcept final
    {
        return 1;
    }
};
namespace v_1_0
{
class TRT_DEPRECATED IStreamReader : public IVersionedInterface
{
public:
    ~IStreamReader() override = default;
    IStreamReader() = default;
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return InterfaceInfo{"IStreamReader", 1, 0};
    }
    virtual int64_t read(void* destination, int64_t nbBytes) = 0;
protected:
    IStreamReader(IStreamReader const&) = default;
    IStreamReader(IStreamReader&&) = default;
    IStreamReader& operator=(IStreamReader const&) & = default;
    IStreamReader& operator=(IStreamReader&&) & = default;
};
class IStreamWriter : public IVersionedInterface
{
public:
    ~IStreamWriter() override = default;
    IStreamWriter() = default;
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return InterfaceInfo{"IStreamWriter", 1, 0};
    }
    virtual int64_t write(void const* data, int64_t nbBytes) = 0;
protected:
    IStreamWriter(IStreamWriter const&) = default;
    IStreamWriter(IStreamWriter&&) = default;
    IStreamWriter& operator=(IStreamWriter const&) & = default;
    IStreamWriter& operator=(IStreamWriter&&) & = default;
};
}
using IStreamReader = v_1_0::IStreamReader;
using IStreamWriter = v_1_0::IStreamWriter;
enum class SeekPosition : int32_t
{
    kSET = 0,
    kCUR = 1,
    kEND = 2,
};
namespace v_1_0
{
class IStreamReaderV2 : public IVersionedInterface
{
public:
    ~IStreamReaderV2() override = default;
    IStreamReaderV2() = default;
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return InterfaceInfo{"IStreamReaderV2", 1, 0};
    }
    virtual int64_t read(void* destination, int64_t nbBytes, cudaStream_t stream) noexcept = 0;
    virtual bool seek(int64_t offset, SeekPosition where) noexcept = 0;
protected:
    IStreamReaderV2(IStreamReaderV2 const&) = default;
    IStreamReaderV2(IStreamReaderV2&&) = default;
    IStreamReaderV2& operator=(IStreamReaderV2 const&) & = default;
    IStreamReaderV2& operator=(IStreamReaderV2&&) & = default;
};
}
using IStreamReaderV2 = v_1_0::IStreamReaderV2;
class IPluginResourceContext
{
public:
    virtual IGpuAllocator* getGpuAllocator() const noexcept = 0;
    virtual IErrorRecorder* getErrorRecorder() const noexcept = 0;
    virtual ~IPluginResourceContext() noexcept = 0;
protected:
    IPluginResourceContext() = default;
    IPluginResourceContext(IPluginResourceContext const&) = default;
    IPluginResourceContext(IPluginResourceContext&&) = default;
    IPluginResourceContext& operator=(IPluginResourceContext const&) & = default;
    IPluginResourceContext& operator=(IPluginResourceContext&&) & = default;
};
inline IPluginResourceContext::~IPluginResourceContext() noexcept = default;
namespace v_1_0
{
class IPluginV3OneCore : public IPluginCapability
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return InterfaceInfo{"PLUGIN_V3ONE_CORE", 1, 0};
    }
    virtual AsciiChar const* getPluginName() const noexcept = 0;
    virtual AsciiChar const* getPluginVersion() const noexcept = 0;
    virtual AsciiChar const* getPluginNamespace() const noexcept = 0;
};
class IPluginV3OneBuild : public IPluginCapability
{
public:
    static constexpr int32_t kDEFAULT_FORMAT_COMBINATION_LIMIT = 100;
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return InterfaceInfo{"PLUGIN_V3ONE_BUILD", 1, 0};
    }
    virtual int32_t configurePlugin(DynamicPluginTensorDesc const* in, int32_t nbInputs,
        DynamicPluginTensorDesc const* out, int32_t nbOutputs) noexcept = 0;
    virtual int32_t getOutputDataTypes(
        DataType* outputTypes, int32_t nbOutputs, const DataType* inputTypes, int32_t nbInputs) const noexcept = 0;
    virtual int32_t getOutputShapes(DimsExprs const* inputs, int32_t nbInputs, DimsExprs const* shapeInputs,
        int32_t nbShapeInputs, DimsExprs* outputs, int32_t nbOutputs, IExprBuilder& exprBuilder) noexcept = 0;
    virtual bool supportsFormatCombination(
        int32_t pos, DynamicPluginTensorDesc const* inOut, int32_t nbInputs, int32_t nbOutputs) noexcept = 0;
    virtual int32_t getNbOutputs() const noexcept = 0;
    virtual size_t getWorkspaceSize(DynamicPluginTensorDesc const* , int32_t ,
        DynamicPluginTensorDesc const* , int32_t ) const noexcept
    {
        return 0;
    }
    virtual int32_t getValidTactics(int32_t* , int32_t ) noexcept
    {
        return 0;
    }
    virtual int32_t getNbTactics() noexcept
    {
        return 0;
    }
    virtual char const* getTimingCacheID() noexcept
    {
        return nullptr;
    }
    virtual int32_t getFormatCombinationLimit() noexcept
    {
        return kDEFAULT_FORMAT_COMBINATION_LIMIT;
    }
    virtual char const* getMetadataString() noexcept
    {
        return nullptr;
    }
};
class IPluginV3OneRuntime : public IPluginCapability
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return InterfaceInfo{"PLUGIN_V3ONE_RUNTIME", 1, 0};
    }
    virtual int32_t setTactic(int32_t ) noexcept
    {
        return 0;
    }
    virtual int32_t onShapeChange(
        PluginTensorDesc const* in, int32_t nbInputs, PluginTensorDesc const* out, int32_t nbOutputs) noexcept = 0;
    virtual int32_t enqueue(PluginTensorDesc const* inputDesc, PluginTensorDesc const* outputDesc,
        void const* const* inputs, void* const* outputs, void* workspace, cudaStream_t stream) noexcept = 0;
    virtual IPluginV3* attachToContext(IPluginResourceContext* context) noexcept = 0;
    virtual PluginFieldCollection const* getFieldsToSerialize() noexcept = 0;
};
}
namespace v_2_0
{
class IPluginV3OneBuild : public v_1_0::IPluginV3OneBuild
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return InterfaceInfo{"PLUGIN_V3ONE_BUILD", 2, 0};
    }
    virtual int32_t getAliasedInput(int32_t ) noexcept
    {
        return -1;
    }
};
}
using IPluginV3OneCore = v_1_0::IPluginV3OneCore;
using IPluginV3OneBuild = v_1_0::IPluginV3OneBuild;
using IPluginV3OneRuntime = v_1_0::IPluginV3OneRuntime;
using IPluginV3OneBuildV2 = v_2_0::IPluginV3OneBuild;
namespace v_1_0
{
class IProfiler : public IVersionedInterface
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"IProfiler", 1, 0};
    }
    virtual void reportLayerTime(char const* layerName, float ms) noexcept = 0;
    ~IProfiler() override = default;
};
}
using IProfiler = v_1_0::IProfiler;
enum class WeightsRole : int32_t
{
    kKERNEL = 0,
    kBIAS = 1,
    kSHIFT = 2,
    kSCALE = 3,
    kCONSTANT = 4,
    kANY = 5,
};
template <>
struct impl::EnumMaxImpl<WeightsRole>
{
    static constexpr int32_t kVALUE = 6;
};
enum class DeviceType : int32_t
{
    kGPU = 0,
    kDLA = 1,
};
template <>
struct impl::EnumMaxImpl<DeviceType>
{
    static constexpr int32_t kVALUE = 2;
};
enum class TempfileControlFlag : int32_t
{
    kALLOW_IN_MEMORY_FILES = 0,
    kALLOW_TEMPORARY_FILES = 1,
};
template <>
struct impl::EnumMaxImpl<TempfileControlFlag>
{
    static constexpr int32_t kVALUE = 2;
};
using TempfileControlFlags = uint32_t;
enum class TensorFormat : int32_t
{
    kLINEAR = 0,
    kCHW2 = 1,
    kHWC8 = 2,
    kCHW4 = 3,
    kCHW16 = 4,
    kCHW32 = 5,
    kDHWC8 = 6,
    kCDHW32 = 7,
    kHWC = 8,
    kDLA_LINEAR = 9,
    kDLA_HWC4 = 10,
    kHWC16 = 11,
    kDHWC = 12
};
template <>
struct impl::EnumMaxImpl<TensorFormat>
{
    static constexpr int32_t kVALUE = 13;
};
enum class AllocatorFlag : int32_t
{
    kRESIZABLE = 0,
};
template <>
struct impl::EnumMaxImpl<AllocatorFlag>
{
    static constexpr int32_t kVALUE = 1;
};
using AllocatorFlags = uint32_t;
namespace v_1_0
{
class ILogger : public IVersionedInterface
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"ILogger", 1, 0};
    }
    enum class Severity : int32_t
    {
        kINTERNAL_ERROR = 0,
        kERROR = 1,
        kWARNING = 2,
        kINFO = 3,
        kVERBOSE = 4,
    };
    virtual void log(Severity severity, AsciiChar const* msg) noexcept = 0;
    ILogger() = default;
    ~ILogger() override = default;
protected:
    ILogger(ILogger const&) = default;
    ILogger(ILogger&&) = default;
    ILogger& operator=(ILogger const&) & = default;
    ILogger& operator=(ILogger&&) & = default;
};
}
using ILogger = v_1_0::ILogger;
template <>
struct impl::EnumMaxImpl<ILogger::Severity>
{
    static constexpr int32_t kVALUE = 5;
};
namespace v_1_0
{
class IGpuAllocator : public IVersionedInterface
{
public:
    TRT_DEPRECATED virtual void* allocate(
        uint64_t const size, uint64_t const alignment, AllocatorFlags const flags) noexcept = 0;
    ~IGpuAllocator() override = default;
    IGpuAllocator() = default;
    virtual void* reallocate(void* const , uint64_t , uint64_t ) noexcept
    {
        return nullptr;
    }
    TRT_DEPRECATED virtual bool deallocate(void* const memory) noexcept = 0;
    virtual void* allocateAsync(
        uint64_t const size, uint64_t const alignment, AllocatorFlags const flags, cudaStream_t ) noexcept
    {
        return allocate(size, alignment, flags);
    }
    virtual bool deallocateAsync(void* const memory, cudaStream_t ) noexcept
    {
        return deallocate(memory);
    }
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"IGpuAllocator", 1, 0};
    }
protected:
    IGpuAllocator(IGpuAllocator const&) = default;
    IGpuAllocator(IGpuAllocator&&) = default;
    IGpuAllocator& operator=(IGpuAllocator const&) & = default;
    IGpuAllocator& operator=(IGpuAllocator&&) & = default;
};
}
using IGpuAllocator = v_1_0::IGpuAllocator;
class IRuntime : public INoCopy
{
public:
    virtual ~IRuntime() noexcept = 0;
    void setDLACore(int32_t dlaCore) noexcept
    {
        mImpl->setDLACore(dlaCore);
    }
    int32_t getDLACore() const noexcept
    {
        return mImpl->getDLACore();
    }
    int32_t getNbDLACores() const noexcept
    {
        return mImpl->getNbDLACores();
    }
    void setGpuAllocator(IGpuAllocator* allocator) noexcept
    {
        mImpl->setGpuAllocator(allocator);
    }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept
    {
        mImpl->setErrorRecorder(recorder);
    }
    IErrorRecorder* getErrorRecorder() const noexcept
    {
        return mImpl->getErrorRecorder();
    }
    ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept
    {
        return mImpl->deserializeCudaEngine(blob, size);
    }
    ICudaEngine* deserializeCudaEngine(IStreamReaderV2& streamReader)
    {
        return mImpl->deserializeCudaEngineV2(streamReader);
    }
    ILogger* getLogger() const noexcept
    {
        return mImpl->getLogger();
    }
    bool setMaxThreads(int32_t maxThreads) noexcept
    {
        return mImpl->setMaxThreads(maxThreads);
    }
    int32_t getMaxThreads() const noexcept
    {
        return mImpl->getMaxThreads();
    }
    void setTemporaryDirectory(char const* path) noexcept
    {
        return mImpl->setTemporaryDirectory(path);
    }
    char const* getTemporaryDirectory() const noexcept
    {
        return mImpl->getTemporaryDirectory();
    }
    void setTempfileControlFlags(TempfileControlFlags flags) noexcept
    {
        return mImpl->setTempfileControlFlags(flags);
    }
    TempfileControlFlags getTempfileControlFlags() const noexcept
    {
        return mImpl->getTempfileControlFlags();
    }
    IPluginRegistry& getPluginRegistry() noexcept
    {
        return mImpl->getPluginRegistry();
    }
    IRuntime* loadRuntime(char const* path) noexcept
    {
        return mImpl->loadRuntime(path);
    }
    void setEngineHostCodeAllowed(bool allowed) noexcept
    {
        return mImpl->setEngineHostCodeAllowed(allowed);
    }
    bool getEngineHostCodeAllowed() const noexcept
    {
        return mImpl->getEngineHostCodeAllowed();
    }
protected:
    apiv::VRuntime* mImpl{};
};
inline IRuntime::~IRuntime() noexcept = default;
class IRefitter : public INoCopy
{
public:
    virtual ~IRefitter() noexcept = 0;
    bool setWeights(char const* layerName, WeightsRole role, Weights weights) noexcept
    {
        return mImpl->setWeights(layerName, role, weights);
    }
    bool refitCudaEngine() noexcept
    {
        return mImpl->refitCudaEngine();
    }
    int32_t getMissing(int32_t size, char const** layerNames, WeightsRole* roles) noexcept
    {
        return mImpl->getMissing(size, layerNames, roles);
    }
    int32_t getAll(int32_t size, char const** layerNames, WeightsRole* roles) noexcept
    {
        return mImpl->getAll(size, layerNames, roles);
    }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept
    {
        mImpl->setErrorRecorder(recorder);
    }
    IErrorRecorder* getErrorRecorder() const noexcept
    {
        return mImpl->getErrorRecorder();
    }
    bool setNamedWeights(char const* name, Weights weights) noexcept
    {
        return mImpl->setNamedWeights(name, weights);
    }
    int32_t getMissingWeights(int32_t size, char const** weightsNames) noexcept
    {
        return mImpl->getMissingWeights(size, weightsNames);
    }
    int32_t getAllWeights(int32_t size, char const** weightsNames) noexcept
    {
        return mImpl->getAllWeights(size, weightsNames);
    }
    ILogger* getLogger() const noexcept
    {
        return mImpl->getLogger();
    }
    bool setMaxThreads(int32_t maxThreads) noexcept
    {
        return mImpl->setMaxThreads(maxThreads);
    }
    int32_t getMaxThreads() const noexcept
    {
        return mImpl->getMaxThreads();
    }
    bool setNamedWeights(char const* name, Weights weights, TensorLocation location) noexcept
    {
        return mImpl->setNamedWeightsWithLocation(name, weights, location);
    }
    Weights getNamedWeights(char const* weightsName) const noexcept
    {
        return mImpl->getNamedWeights(weightsName);
    }
    TensorLocation getWeightsLocation(char const* weightsName) const noexcept
    {
        return mImpl->getWeightsLocation(weightsName);
    }
    bool unsetNamedWeights(char const* weightsName) noexcept
    {
        return mImpl->unsetNamedWeights(weightsName);
    }
    void setWeightsValidation(bool weightsValidation) noexcept
    {
        return mImpl->setWeightsValidation(weightsValidation);
    }
    bool getWeightsValidation() const noexcept
    {
        return mImpl->getWeightsValidation();
    }
    bool refitCudaEngineAsync(cudaStream_t stream) noexcept
    {
        return mImpl->refitCudaEngineAsync(stream);
    }
    Weights getWeightsPrototype(char const* weightsName) const noexcept
    {
        return mImpl->getWeightsPrototype(weightsName);
    }
protected:
    apiv::VRefitter* mImpl;
};
inline IRefitter::~IRefitter() noexcept = default;
enum class OptProfileSelector : int32_t
{
    kMIN = 0,
    kOPT = 1,
    kMAX = 2
};
template <>
struct impl::EnumMaxImpl<OptProfileSelector>
{
    static constexpr int32_t kVALUE = 3;
};
class IOptimizationProfile : public INoCopy
{
public:
    bool setDimensions(char const* inputName, OptProfileSelector select, Dims const& dims) noexcept
    {
        return mImpl->setDimensions(inputName, select, dims);
    }
    Dims getDimensions(char const* inputName, OptProfileSelector select) const noexcept
    {
        return mImpl->getDimensions(inputName, select);
    }
    int32_t getNbShapeValues(char const* inputName) const noexcept
    {
        return mImpl->getNbShapeValues(inputName);
    }
    bool setExtraMemoryTarget(float target) noexcept
    {
        return mImpl->setExtraMemoryTarget(target);
    }
    float getExtraMemoryTarget() const noexcept
    {
        return mImpl->getExtraMemoryTarget();
    }
    bool isValid() const noexcept
    {
        return mImpl->isValid();
    }
    bool setShapeValuesV2(
        char const* inputName, OptProfileSelector select, int64_t const* values, int32_t nbValues) noexcept
    {
        return mImpl->setShapeValuesV2(inputName, select, values, nbValues);
    }
    int64_t const* getShapeValuesV2(char const* inputName, OptProfileSelector select) const noexcept
    {
        return mImpl->getShapeValuesV2(inputName, select);
    }
protected:
    apiv::VOptimizationProfile* mImpl;
    virtual ~IOptimizationProfile() noexcept = 0;
};
inline IOptimizationProfile::~IOptimizationProfile() noexcept = default;
enum class TacticSource : int32_t
{
    kEDGE_MASK_CONVOLUTIONS = 0,
    kJIT_CONVOLUTIONS = 1,
};
template <>
struct impl::EnumMaxImpl<TacticSource>
{
    static constexpr int32_t kVALUE = 2;
};
using TacticSources = uint32_t;
enum class ProfilingVerbosity : int32_t
{
    kLAYER_NAMES_ONLY = 0,
    kNONE = 1,
    kDETAILED = 2,
};
template <>
struct impl::EnumMaxImpl<ProfilingVerbosity>
{
    static constexpr int32_t kVALUE = 3;
};
using SerializationFlags = uint32_t;
enum class SerializationFlag : int32_t
{
    kEXCLUDE_WEIGHTS = 0,
    kEXCLUDE_LEAN_RUNTIME = 1,
    kINCLUDE_REFIT = 2,
};
template <>
struct impl::EnumMaxImpl<SerializationFlag>
{
    static constexpr int32_t kVALUE = 3;
};
class ISerializationConfig : public INoCopy
{
public:
    virtual ~ISerializationConfig() noexcept = 0;
    bool setFlags(SerializationFlags serializationFlags) noexcept
    {
        return mImpl->setFlags(serializationFlags);
    }
    SerializationFlags getFlags() const noexcept
    {
        return mImpl->getFlags();
    }
    bool clearFlag(SerializationFlag serializationFlag) noexcept
    {
        return mImpl->clearFlag(serializationFlag);
    }
    bool setFlag(SerializationFlag serializationFlag) noexcept
    {
        return mImpl->setFlag(serializationFlag);
    }
    bool getFlag(SerializationFlag serializationFlag) const noexcept
    {
        return mImpl->getFlag(serializationFlag);
    }
protected:
    apiv::VSerializationConfig* mImpl;
};
inline ISerializationConfig::~ISerializationConfig() noexcept = default;
enum class ExecutionContextAllocationStrategy : int32_t
{
    kSTATIC = 0,
    kON_PROFILE_CHANGE = 1,
    kUSER_MANAGED = 2,
};
template <>
struct impl::EnumMaxImpl<ExecutionContextAllocationStrategy>
{
    static constexpr int32_t kVALUE = 3;
};
class IRuntimeConfig : public INoCopy
{
public:
    virtual ~IRuntimeConfig() noexcept = 0;
    void setExecutionContextAllocationStrategy(ExecutionContextAllocationStrategy strategy) noexcept
    {
        return mImpl->setExecutionContextAllocationStrategy(strategy);
    }
    ExecutionContextAllocationStrategy getExecutionContextAllocationStrategy() const noexcept
    {
        return mImpl->getExecutionContextAllocationStrategy();
    }
protected:
    apiv::VRuntimeConfig* mImpl;
};
inline IRuntimeConfig::~IRuntimeConfig() noexcept = default;
enum class EngineStat : int32_t
{
    kTOTAL_WEIGHTS_SIZE = 0,
    kSTRIPPED_WEIGHTS_SIZE = 1,
};
template <>
struct impl::EnumMaxImpl<EngineStat>
{
    static constexpr int32_t kVALUE = 2;
};
class ICudaEngine : public INoCopy
{
public:
    virtual ~ICudaEngine() noexcept = 0;
    Dims getTensorShape(char const* tensorName) const noexcept
    {
        return mImpl->getTensorShape(tensorName);
    }
    DataType getTensorDataType(char const* tensorName) const noexcept
    {
        return mImpl->getTensorDataType(tensorName);
    }
    int32_t getNbLayers() const noexcept
    {
        return mImpl->getNbLayers();
    }
    IHostMemory* serialize() const noexcept
    {
        return mImpl->serialize();
    }
    IExecutionContext* createExecutionContext(
        ExecutionContextAllocationStrategy strategy = ExecutionContextAllocationStrategy::kSTATIC) noexcept
    {
        return mImpl->createExecutionContext(strategy);
    }
    TensorLocation getTensorLocation(char const* tensorName) const noexcept
    {
        return mImpl->getTensorLocation(tensorName);
    }
    bool isShapeInferenceIO(char const* tensorName) const noexcept
    {
        return mImpl->isShapeInferenceIO(tensorName);
    }
    TensorIOMode getTensorIOMode(char const* tensorName) const noexcept
    {
        return mImpl->getTensorIOMode(tensorName);
    }
    TRT_NODISCARD char const* getAliasedInputTensor(char const* tensorName) const noexcept
    {
        return mImpl->getAliasedInputTensor(tensorName);
    }
    IExecutionContext* createExecutionContext(IRuntimeConfig* runtimeConfig) noexcept
    {
        return mImpl->createExecutionContextWithRuntimeConfig(runtimeConfig);
    }
    IRuntimeConfig* createRuntimeConfig() noexcept
    {
        return mImpl->createRuntimeConfig();
    }
    int64_t getDeviceMemorySizeV2() const noexcept
    {
        return mImpl->getDeviceMemorySizeV2();
    }
    int64_t getDeviceMemorySizeForProfileV2(int32_t profileIndex) const noexcept
    {
        return mImpl->getDeviceMemorySizeForProfileV2(profileIndex);
    }
    bool isRefittable() const noexcept
    {
        return mImpl->isRefittable();
    }
    int32_t getTensorBytesPerComponent(char const* tensorName) const noexcept
    {
        return mImpl->getTensorBytesPerComponent(tensorName);
    }
    int32_t getTensorBytesPerComponent(char const* tensorName, int32_t profileIndex) const noexcept
    {
        return mImpl->getTensorBytesPerComponentV2(tensorName, profileIndex);
    }
    int32_t getTensorComponentsPerElement(char const* tensorName) const noexcept
    {
        return mImpl->getTensorComponentsPerElement(tensorName);
    }
    int32_t getTensorComponentsPerElement(char const* tensorName, int32_t profileIndex) const noexcept
    {
        return mImpl->getTensorComponentsPerElementV2(tensorName, profileIndex);
    }
    TensorFormat getTensorFormat(char const* tensorName) const noexcept
    {
        return mImpl->getTensorFormat(tensorName);
    }
    TensorFormat getTensorFormat(char const* tensorName, int32_t profileIndex) const noexcept
    {
        return mImpl->getTensorFormatV2(tensorName, profileIndex);
    }
    char const* getTensorFormatDesc(char const* tensorName) const noexcept
    {
        return mImpl->getTensorFormatDesc(tensorName);
    }
    char const* getTensorFormatDesc(char const* tensorName, int32_t profileIndex) const noexcept
    {
        return mImpl->getTensorFormatDescV2(tensorName, profileIndex);
    }
    int32_t getTensorVectorizedDim(char const* tensorName) const noexcept
    {
        return mImpl->getTensorVectorizedDim(tensorName);
    }
    int32_t getTensorVectorizedDim(char const* tensorName, int32_t profileIndex) const noexcept
    {
        return mImpl->getTensorVectorizedDimV2(tensorName, profileIndex);
    }
    char const* getName() const noexcept
    {
        return mImpl->getName();
    }
    int32_t getNbOptimizationProfiles() const noexcept
    {
        return mImpl->getNbOptimizationProfiles();
    }
    Dims getProfileShape(char const* tensorName, int32_t profileIndex, OptProfileSelector select) const noexcept
    {
        return mImpl->getProfileShape(tensorName, profileIndex, select);
    }
    EngineCapability getEngineCapability() const noexcept
    {
        return mImpl->getEngineCapability();
    }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept
    {
        return mImpl->setErrorRecorder(recorder);
    }
    IErrorRecorder* getErrorRecorder() const noexcept
    {
        return mImpl->getErrorRecorder();
    }
    TacticSources getTacticSources() const noexcept
    {
        return mImpl->getTacticSources();
    }
    ProfilingVerbosity getProfilingVerbosity() const noexcept
    {
        return mImpl->getProfilingVerbosity();
    }
    IEngineInspector* createEngineInspector() const noexcept
    {
        return mImpl->createEngineInspector();
    }
    int32_t getNbIOTensors() const noexcept
    {
        return mImpl->getNbIOTensors();
    }
    char const* getIOTensorName(int32_t index) const noexcept
    {
        return mImpl->getIOTensorName(index);
    }
    HardwareCompatibilityLevel getHardwareCompatibilityLevel() const noexcept
    {
        return mImpl->getHardwareCompatibilityLevel();
    }
    int32_t getNbAuxStreams() const noexcept
    {
        return mImpl->getNbAuxStreams();
    }
    ISerializationConfig* createSerializationConfig() noexcept
    {
        return mImpl->createSerializationConfig();
    }
    IHostMemory* serializeWithConfig(ISerializationConfig& config) const noexcept
    {
        return mImpl->serializeWithConfig(config);
    }
    int64_t getStreamableWeightsSize() const noexcept
    {
        return mImpl->getStreamableWeightsSize();
    }
    bool setWeightStreamingBudgetV2(int64_t gpuMemoryBudget) noexcept
    {
        return mImpl->setWeightStreamingBudgetV2(gpuMemoryBudget);
    }
    int64_t getWeightStreamingBudgetV2() const noexcept
    {
        return mImpl->getWeightStreamingBudgetV2();
    }
    int64_t getWeightStreamingAutomaticBudget() const noexcept
    {
        return mImpl->getWeightStreamingAutomaticBudget();
    }
    int64_t getWeightStreamingScratchMemorySize() const noexcept
    {
        return mImpl->getWeightStreamingScratchMemorySize();
    }
    bool isDebugTensor(char const* name) const noexcept
    {
        return mImpl->isDebugTensor(name);
    }
    int64_t const* getProfileTensorValuesV2(
        char const* tensorName, int32_t profileIndex, OptProfileSelector select) const noexcept
    {
        return mImpl->getProfileTensorValuesV2(tensorName, profileIndex, select);
    }
    int64_t getEngineStat(EngineStat stat) const noexcept
    {
        return mImpl->getEngineStat(stat);
    }
protected:
    apiv::VCudaEngine* mImpl;
};
inline ICudaEngine::~ICudaEngine() noexcept = default;
namespace v_1_0
{
class IOutputAllocator : public IVersionedInterface
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"IOutputAllocator", 1, 0};
    }
    TRT_DEPRECATED virtual void* reallocateOutput(
        char const* , void* , uint64_t , uint64_t ) noexcept
    {
        return nullptr;
    }
    virtual void* reallocateOutputAsync(
        [[maybe_unused]] char const* tensorName, [[maybe_unused]] void* currentMemory, [[maybe_unused]] uint64_t size,
        [[maybe_unused]] uint64_t alignment, cudaStream_t )
    {
        return reallocateOutput(tensorName, currentMemory, size, alignment);
    }
    virtual void notifyShape(char const* tensorName, Dims const& dims) noexcept = 0;
};
}
using IOutputAllocator = v_1_0::IOutputAllocator;
namespace v_1_0
{
class IDebugListener : public IVersionedInterface
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"IDebugListener", 1, 0};
    }
    virtual bool processDebugTensor(void const* addr, TensorLocation location, DataType type, Dims const& shape,
        char const* name, cudaStream_t stream)
        = 0;
    ~IDebugListener() override = default;
};
}
using IDebugListener = v_1_0::IDebugListener;
class IExecutionContext : public INoCopy
{
public:
    virtual ~IExecutionContext() noexcept = 0;
    void setDebugSync(bool sync) noexcept
    {
        mImpl->setDebugSync(sync);
    }
    bool getDebugSync() const noexcept
    {
        return mImpl->getDebugSync();
    }
    void setProfiler(IProfiler* profiler) noexcept
    {
        mImpl->setProfiler(profiler);
    }
    IProfiler* getProfiler() const noexcept
    {
        return mImpl->getProfiler();
    }
    ICudaEngine const& getEngine() const noexcept
    {
        return mImpl->getEngine();
    }
    void setName(char const* name) noexcept
    {
        mImpl->setName(name);
    }
    char const* getName() const noexcept
    {
        return mImpl->getName();
    }
    void setDeviceMemory(void* memory) noexcept
    {
        mImpl->setDeviceMemory(memory);
    }
    void setDeviceMemoryV2(void* memory, int64_t size) noexcept
    {
        return mImpl->setDeviceMemoryV2(memory, size);
    }
    Dims getTensorStrides(char const* tensorName) const noexcept
    {
        return mImpl->getTensorStrides(tensorName);
    }
public:
    int32_t getOptimizationProfile() const noexcept
    {
        return mImpl->getOptimizationProfile();
    }
    bool setInputShape(char const* tensorName, Dims const& dims) noexcept
    {
        return mImpl->setInputShape(tensorName, dims);
    }
    Dims getTensorShape(char const* tensorName) const noexcept
    {
        return mImpl->getTensorShape(tensorName);
    }
    bool allInputDimensionsSpecified() const noexcept
    {
        return mImpl->allInputDimensionsSpecified();
    }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept
    {
        mImpl->setErrorRecorder(recorder);
    }
    IErrorRecorder* getErrorRecorder() const noexcept
    {
        return mImpl->getErrorRecorder();
    }
    bool executeV2(void* const* bindings) noexcept
    {
        return mImpl->executeV2(bindings);
    }
    bool setOptimizationProfileAsync(int32_t profileIndex, cudaStream_t stream) noexcept
    {
        return mImpl->setOptimizationProfileAsync(profileIndex, stream);
    }
    void setEnqueueEmitsProfile(bool enqueueEmitsProfile) noexcept
    {
        mImpl->setEnqueueEmitsProfile(enqueueEmitsProfile);
    }
    bool getEnqueueEmitsProfile() const noexcept
    {
        return mImpl->getEnqueueEmitsProfile();
    }
    bool reportToProfiler() const noexcept
    {
        return mImpl->reportToProfiler();
    }
    bool setTensorAddress(char const* tensorName, void* data) noexcept
    {
        return mImpl->setTensorAddress(tensorName, data);
    }
    void const* getTensorAddress(char const* tensorName) const noexcept
    {
        return mImpl->getTensorAddress(tensorName);
    }
    bool setOutputTensorAddress(char const* tensorName, void* data) noexcept
    {
        return mImpl->setOutputTensorAddress(tensorName, data);
    }
    bool setInputTensorAddress(char const* tensorName, void const* data) noexcept
    {
        return mImpl->setInputTensorAddress(tensorName, data);
    }
    void* getOutputTensorAddress(char const* tensorName) const noexcept
    {
        return mImpl->getOutputTensorAddress(tensorName);
    }
    int32_t inferShapes(int32_t nbMaxNames, char const** tensorNames) noexcept
    {
        return mImpl->inferShapes(nbMaxNames, tensorNames);
    }
    size_t updateDeviceMemorySizeForShapes() noexcept
    {
        return mImpl->updateDeviceMemorySizeForShapes();
    }
    bool setInputConsumedEvent(cudaEvent_t event) noexcept
    {
        return mImpl->setInputConsumedEvent(event);
    }
    cudaEvent_t getInputConsumedEvent() const noexcept
    {
        return mImpl->getInputConsumedEvent();
    }
    bool setOutputAllocator(char const* tensorName, IOutputAllocator* outputAllocator) noexcept
    {
        return mImpl->setOutputAllocator(tensorName, outputAllocator);
    }
    IOutputAllocator* getOutputAllocator(char const* tensorName) const noexcept
    {
        return mImpl->getOutputAllocator(tensorName);
    }
    int64_t getMaxOutputSize(char const* tensorName) const noexcept
    {
        return mImpl->getMaxOutputSize(tensorName);
    }
    bool setTemporaryStorageAllocator(IGpuAllocator* allocator) noexcept
    {
        return mImpl->setTemporaryStorageAllocator(allocator);
    }
    IGpuAllocator* getTemporaryStorageAllocator() const noexcept
    {
        return mImpl->getTemporaryStorageAllocator();
    }
    bool enqueueV3(cudaStream_t stream) noexcept
    {
        return mImpl->enqueueV3(stream);
    }
    void setPersistentCacheLimit(size_t size) noexcept
    {
        mImpl->setPersistentCacheLimit(size);
    }
    size_t getPersistentCacheLimit() const noexcept
    {
        return mImpl->getPersistentCacheLimit();
    }
    bool setNvtxVerbosity(ProfilingVerbosity verbosity) noexcept
    {
        return mImpl->setNvtxVerbosity(verbosity);
    }
    ProfilingVerbosity getNvtxVerbosity() const noexcept
    {
        return mImpl->getNvtxVerbosity();
    }
    void setAuxStreams(cudaStream_t* auxStreams, int32_t nbStreams) noexcept
    {
        mImpl->setAuxStreams(auxStreams, nbStreams);
    }
    bool setDebugListener(IDebugListener* listener) noexcept
    {
        return mImpl->setDebugListener(listener);
    }
    IDebugListener* getDebugListener() noexcept
    {
        return mImpl->getDebugListener();
    }
    bool setTensorDebugState(char const* name, bool flag) noexcept
    {
        return mImpl->setTensorDebugState(name, flag);
    }
    bool getDebugState(char const* name) const noexcept
    {
        return mImpl->getDebugState(name);
    }
    IRuntimeConfig* getRuntimeConfig() const noexcept
    {
        return mImpl->getRuntimeConfig();
    }
    bool setAllTensorsDebugState(bool flag) noexcept
    {
        return mImpl->setAllTensorsDebugState(flag);
    }
    bool setUnfusedTensorsDebugState(bool flag) noexcept
    {
        return mImpl->setUnfusedTensorsDebugState(flag);
    }
    bool getUnfusedTensorsDebugState() const noexcept
    {
        return mImpl->getUnfusedTensorsDebugState();
    }
    bool setCommunicator(void* communicator) noexcept
    {
        return mImpl->setCommunicator(communicator);
    }
protected:
    apiv::VExecutionContext* mImpl;
};
inline IExecutionContext::~IExecutionContext() noexcept = default;
enum class LayerInformationFormat : int32_t
{
    kONELINE = 0,
    kJSON = 1,
};
template <>
struct impl::EnumMaxImpl<LayerInformationFormat>
{
    static constexpr int32_t kVALUE = 2;
};
class IEngineInspector : public INoCopy
{
public:
    virtual ~IEngineInspector() noexcept = 0;
    bool setExecutionContext(IExecutionContext const* context) noexcept
    {
        return mImpl->setExecutionContext(context);
    }
    IExecutionContext const* getExecutionContext() const noexcept
    {
        return mImpl->getExecutionContext();
    }
    char const* getLayerInformation(int32_t layerIndex, LayerInformationFormat format) const noexcept
    {
        return mImpl->getLayerInformation(layerIndex, format);
    }
    char const* getEngineInformation(LayerInformationFormat format) const noexcept
    {
        return mImpl->getEngineInformation(format);
    }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept
    {
        mImpl->setErrorRecorder(recorder);
    }
    IErrorRecorder* getErrorRecorder() const noexcept
    {
        return mImpl->getErrorRecorder();
    }
protected:
    apiv::VEngineInspector* mImpl;
};
inline IEngineInspector::~IEngineInspector() noexcept = default;
}
extern "C" TENSORRTAPI void* createInferRuntime_INTERNAL(void* logger, int32_t version) noexcept;
extern "C" TENSORRTAPI void* createInferRefitter_INTERNAL(void* engine, void* logger, int32_t version) noexcept;
extern "C" TENSORRTAPI nvinfer1::IPluginRegistry* getPluginRegistry() noexcept;
extern "C" TENSORRTAPI nvinfer1::ILogger* getLogger() noexcept;
namespace nvinfer1
{
namespace
{
inline IRuntime* createInferRuntime(ILogger& logger) noexcept
{
    return static_cast<IRuntime*>(createInferRuntime_INTERNAL(&logger, NV_TENSORRT_VERSION));
}
inline IRefitter* createInferRefitter(ICudaEngine& engine, ILogger& logger) noexcept
{
    return static_cast<IRefitter*>(createInferRefitter_INTERNAL(&engine, &logger, NV_TENSORRT_VERSION));
}
}
template <typename T>
class PluginRegistrar
{
public:
    PluginRegistrar()
    {
        getPluginRegistry()->registerCreator(instance, "");
    }
private:
    T instance{};
};
}
#define REGISTER_TENSORRT_PLUGIN(name)                                                                                 \
    static nvinfer1::PluginRegistrar<name> pluginRegistrar##name {}
namespace nvinfer1
{
namespace v_1_0
{
class ILoggerFinder : public IVersionedInterface
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"ILoggerFinder", 1, 0};
    }
    virtual ILogger* findLogger() = 0;
protected:
    ~ILoggerFinder() override = default;
};
}
using ILoggerFinder = v_1_0::ILoggerFinder;
namespace v_1_0
{
class IGpuAsyncAllocator : public IGpuAllocator
{
public:
    IGpuAsyncAllocator() = default;
    ~IGpuAsyncAllocator() override = default;
    void* allocateAsync(uint64_t const size, uint64_t const alignment, AllocatorFlags const flags,
        cudaStream_t ) noexcept override = 0;
    bool deallocateAsync(void* const memory, cudaStream_t ) noexcept override = 0;
    TRT_DEPRECATED void* allocate(
        uint64_t const size, uint64_t const alignment, AllocatorFlags const flags) noexcept override
    {
        return allocateAsync(size, alignment, flags, nullptr);
    }
    TRT_DEPRECATED bool deallocate(void* const memory) noexcept override
    {
        return deallocateAsync(memory, nullptr);
    }
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"IGpuAllocator", 1, 0};
    }
};
class IPluginCreatorV3One : public IPluginCreatorInterface
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return InterfaceInfo{"PLUGIN CREATOR_V3ONE", 1, 0};
    }
    virtual IPluginV3* createPlugin(
        AsciiChar const* name, PluginFieldCollection const* fc, TensorRTPhase phase) noexcept = 0;
    virtual PluginFieldCollection const* getFieldNames() noexcept = 0;
    virtual AsciiChar const* getPluginName() const noexcept = 0;
    virtual AsciiChar const* getPluginVersion() const noexcept = 0;
    virtual AsciiChar const* getPluginNamespace() const noexcept = 0;
    IPluginCreatorV3One() = default;
    virtual ~IPluginCreatorV3One() = default;
protected:
    IPluginCreatorV3One(IPluginCreatorV3One const&) = default;
    IPluginCreatorV3One(IPluginCreatorV3One&&) = default;
    IPluginCreatorV3One& operator=(IPluginCreatorV3One const&) & = default;
    IPluginCreatorV3One& operator=(IPluginCreatorV3One&&) & = default;
};
}
using IGpuAsyncAllocator = v_1_0::IGpuAsyncAllocator;
using IPluginCreatorV3One = v_1_0::IPluginCreatorV3One;
}
extern "C" TENSORRTAPI int32_t getInferLibMajorVersion() noexcept;
extern "C" TENSORRTAPI int32_t getInferLibMinorVersion() noexcept;
extern "C" TENSORRTAPI int32_t getInferLibPatchVersion() noexcept;
extern "C" TENSORRTAPI int32_t getInferLibBuildVersion() noexcept;
#endif
