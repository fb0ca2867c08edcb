// Command clientgo measures client-go's shared informer on the events that hack/bench/informer.py serves.
//
//	clientgo encode <events.json >events.pb    the same events as an API server frames them in protobuf
//	clientgo watch -server URL -client typed|dynamic -events N [-strip]
//
// watch prints one line of JSON: the CPU and wall seconds from the start of the informer until its handler has queued the
// last key, and the live heap for each object after two collections (what is resident is more). Like ours, the informer
// has two indexers (node, owner) and one handler that puts keys into a work queue. -strip drops managedFields and
// annotations before they are cached, as careful controllers do.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const maxLineBytes = 16 << 20

type figures struct {
	CPUSeconds   float64 `json:"cpuSeconds"`
	WallSeconds  float64 `json:"wallSeconds"`
	KibPerObject float64 `json:"kibPerObject"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: clientgo encode | watch …")
	}
	var err error
	switch os.Args[1] {
	case "encode":
		err = encode(os.Stdin, os.Stdout)
	case "watch":
		err = watch(os.Args[2:])
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// encode turns lines of {"type", "object": Pod} into length-delimited protobuf watch events.
func encode(in io.Reader, out io.Writer) error {
	object := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	event := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme)
	buffered := bufio.NewWriter(out)
	frames := protobuf.LengthDelimitedFramer.NewFrameWriter(buffered)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var line struct {
			Type   string
			Object corev1.Pod
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return err
		}
		line.Object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		raw, err := kruntime.Encode(object, &line.Object)
		if err != nil {
			return err
		}
		// The frame is one Write: the serializer is given a buffer of its own.
		frame, err := kruntime.Encode(event, &metav1.WatchEvent{Type: line.Type, Object: kruntime.RawExtension{Raw: raw}})
		if err != nil {
			return err
		}
		if _, err := frames.Write(frame); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), buffered.Flush())
}

func watch(arguments []string) error {
	flags := flag.NewFlagSet("watch", flag.ExitOnError)
	server := flags.String("server", "", "URL of the API server")
	client := flags.String("client", "typed", "typed (protobuf) or dynamic (JSON, the only one for custom resources)")
	events := flags.Int("events", 0, "how many events will come")
	strip := flags.Bool("strip", false, "drop managedFields and annotations before caching")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	// List, then watch, as our side does here: the events are to come as changes, not as a streamed list.
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
		return err
	}
	informer, err := newInformer(*client, *server)
	if err != nil {
		return err
	}
	if *strip {
		if err := informer.SetTransform(stripped); err != nil {
			return err
		}
	}
	queue := workqueue.NewTyped[string]()
	full := make(chan struct{})
	seen := 0
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
		if seen++; seen == *events {
			close(full)
		}
	}})
	if err != nil {
		return err
	}
	// As on our side: what a first request costs is not what an event costs.
	if answer, err := http.Get(*server + "/version"); err != nil {
		return err
	} else if err := answer.Body.Close(); err != nil {
		return err
	}
	heap, cpu, wall := liveHeap(), cpuSeconds(), time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go informer.RunWithContext(ctx)
	<-full
	result := figures{CPUSeconds: cpuSeconds() - cpu, WallSeconds: time.Since(wall).Seconds()}
	result.KibPerObject = float64(liveHeap()-heap) / 1024 / float64(*events)
	if cached, queued := len(informer.GetStore().ListKeys()), queue.Len(); cached != *events || queued != *events {
		return fmt.Errorf("%d objects cached and %d keys queued of %d events", cached, queued, *events)
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func newInformer(client, server string) (cache.SharedIndexInformer, error) {
	config := &rest.Config{Host: server, QPS: -1, UserAgent: "bench/1"}
	if client == "dynamic" {
		made, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		return dynamicinformer.NewFilteredDynamicInformer(made, pods, metav1.NamespaceAll, 0, indexers(), nil).Informer(), nil
	}
	if client != "typed" {
		return nil, fmt.Errorf("unknown client %q", client)
	}
	config.ContentType = kruntime.ContentTypeProtobuf
	config.AcceptContentTypes = kruntime.ContentTypeProtobuf + "," + kruntime.ContentTypeJSON
	made, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return coreinformers.NewPodInformer(made, metav1.NamespaceAll, 0, indexers()), nil
}

func indexers() cache.Indexers {
	return cache.Indexers{"node": byNode, "owner": byOwner}
}

func byNode(object any) ([]string, error) {
	switch pod := object.(type) {
	case *corev1.Pod:
		return []string{pod.Spec.NodeName}, nil
	case *unstructured.Unstructured:
		name, _, err := unstructured.NestedString(pod.Object, "spec", "nodeName")
		return []string{name}, err
	}
	return nil, fmt.Errorf("not a Pod: %T", object)
}

func byOwner(object any) ([]string, error) {
	pod, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

func stripped(object any) (any, error) {
	if pod, err := meta.Accessor(object); err == nil {
		pod.SetManagedFields(nil)
		pod.SetAnnotations(nil)
	}
	return object, nil
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return (time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds()
}
